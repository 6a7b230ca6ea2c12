"""Records in columns by librdkafka's own functions, through the handle of the Python client.

The Python client does not lend its handle: it is read from the client's memory. So this is only for the versions of the
client that `is_known` knows; for all others there is `plain`. See docs/adr/0065.
"""

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from enrich.kafka.clients.errors import MISSING_TOPIC
from enrich.kafka.columnar.records import HEADER, Came, Records
from enrich.kafka.librdkafka import INT, POINTER, SIZE, TEXT, Functions, Library

_KNOWN = ("2.16.",)
_AFTER = object.__basicsize__
"""Where the handle is in a client: its first own field."""
_POLL_S = 0.01
_ROOM = 32
_PARTS = 6 * 72
_MOST_BYTES = 1 << 28
"""Of the values that are taken at once, as of the keys: a column holds 2 GiB. One answer of a broker may bring more, if
it is well compressed."""

_FUNCTIONS: Functions = {
    "queue_new": (POINTER, [POINTER]),
    "queue_get_partition": (POINTER, [POINTER, TEXT, ctypes.c_int32]),
    "queue_forward": (None, [POINTER, POINTER]),
    "queue_destroy": (None, [POINTER]),
    "consume_batch_queue": (ctypes.c_ssize_t, [POINTER, INT, POINTER, SIZE]),
    "topic_name": (TEXT, [POINTER]),
    "topic_new": (POINTER, [POINTER, TEXT, POINTER]),
    "topic_destroy": (None, [POINTER]),
    "last_error": (INT, []),
    "conf": (POINTER, [POINTER]),
    "conf_set_error_cb": (None, [POINTER, POINTER]),
    "error_code": (INT, [POINTER]),
    "error_destroy": (None, [POINTER]),
}

_OF_PARTITIONS = {*MISSING_TOPIC, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION}
_HEARD: dict[int, list[KafkaError]] = {}
"""By the handles of consumers: what is wrong with their partitions."""


def _hear_error(handle: int, code: int, reason: bytes | None, _: object) -> None:
    """librdkafka tells of a topic that is gone, or may not be read, in the queue of the partition, and by a call: in
    place of the Python client's own function, which ends the process if the queue is not read by the client. Of brokers
    that are away it tells here, too; it looks for them itself."""
    if code in _OF_PARTITIONS and handle in _HEARD:
        _HEARD[handle].append(KafkaError(code, (reason or b"").decode(errors="replace")))


_ON_ERROR = ctypes.CFUNCTYPE(None, POINTER, INT, TEXT, POINTER)(_hear_error)
"""As long as any client lives."""


_Numbers = npt.NDArray[np.int64]


def is_known() -> bool:
    """Whether the handle is where this code looks for it."""
    return str(confluent_kafka.__version__).startswith(_KNOWN)


class NativeIncoming:
    """See `Incoming`."""

    def __init__(self, consumer: Consumer) -> None:
        from enrich.kafka.columnar import loops

        self._loops: Any = loops
        self._library = Library(_FUNCTIONS)
        self._consumer = consumer
        self._handle = _handle(consumer)  # it lives as long as the consumer
        self._heard: list[KafkaError] = []
        _HEARD[self._handle] = self._heard
        self._library.conf_set_error_cb(self._library.conf(self._handle), ctypes.cast(_ON_ERROR, POINTER))
        self._queue = self._library.queue_new(self._handle)
        self._partitions: list[int] = []
        """The queues of the partitions, each with its records in ours."""
        self._of = {
            name: self._library.address(name)
            for name in ("message_timestamp", "message_headers", "header_get_all", "message_destroy")
        }
        self._room = ctypes.create_string_buffer(_ROOM)
        self._addresses = np.zeros(0, np.int64)
        self._left = np.zeros(0, np.int64)
        """Messages that were too much for one taking. They come first the next time."""
        self._reached: dict[tuple[str, int], int] = {}
        """Ends that are reached only once these have come."""

    def begin(self, offsets: Sequence[TopicPartition]) -> None:
        # Nothing may come before the partitions' queues lead to ours.
        self._consumer.assign(list(offsets))
        self._consumer.pause(list(offsets))
        for each in offsets:
            own = self._library.queue_get_partition(self._handle, each.topic.encode(), each.partition)
            self._library.queue_forward(own, self._queue)
            self._partitions.append(own)
        self._consumer.resume(list(offsets))

    def take(self, most: int, wait_s: float) -> Came | None:
        self._hear()
        if len(self._left):
            messages, self._left = self._left[:most], self._left[most:]
            return self._came(messages)
        if len(self._addresses) != most:
            self._addresses = np.zeros(most, np.int64)
        at, consume = self._addresses.ctypes.data, self._library.consume_batch_queue
        # It waits the whole time unless it gets as many as it was asked for.
        count = max(0, consume(self._queue, int(1000 * wait_s), at, 1))
        if not count:
            return None
        count += max(0, consume(self._queue, 0, at + 8, most - 1))
        return self._came(self._addresses[:count])

    def close(self) -> None:
        """Before the consumer is closed."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._loops.end(self._left, self._of["message_destroy"])
            _HEARD.pop(self._handle, None)
            for each in self._partitions:
                self._library.queue_forward(each, None)
                self._library.queue_destroy(each)
            self._library.queue_destroy(queue)

    def _hear(self) -> None:
        """What librdkafka has to tell, other than records. Only the Python client may hear it: called back out of a
        call that is not its own it ends the process. So our queue has nothing but records, and errors of partitions."""
        message = self._consumer.poll(0)
        if message is not None:
            # A record that has come another way would be missing in its place.
            raise KafkaException(message.error() or KafkaError(KafkaError._OUTDATED))
        if self._heard:
            raise KafkaException(self._heard.pop())

    def _came(self, messages: _Numbers, reached: Mapping[tuple[str, int], int] | None = None) -> Came:
        count, room, of = len(messages), ctypes.addressof(self._room), self._of
        numbers, sizes = np.zeros((4, count), np.int64), np.zeros((3, count), np.int64)
        error = np.zeros(1, np.int64)
        asked = (of["message_headers"], of["header_get_all"])
        totals = self._loops.measure(messages, of["message_timestamp"], *asked, room, numbers, sizes, error)
        if error[0]:
            return self._came(*self._without_ends(messages))
        if count > 1 and max(totals[:4]) > _MOST_BYTES:
            self._left = np.concatenate([messages[count // 2 :], self._left])
            self._reached |= reached or {}
            return self._came(messages[: count // 2])
        if not len(self._left) and self._reached:
            reached, self._reached = {**self._reached, **(reached or {})}, {}
        # The names of the topics are the messages'.
        handles, topic = np.unique(numbers[3], return_inverse=True)
        topics = [self._library.topic_name(int(handle)).decode() for handle in handles]
        keys, values, names, contents = (np.empty(max(1, size), np.uint8) for size in totals[:4])
        ends = [np.zeros(length + 1, np.int32) for length in (count, count, totals[4], totals[4])]
        has_content = np.zeros(totals[4], np.bool_)
        pairs = zip(ends, (keys, values, names, contents), strict=True)
        flat: Any = [each for end, data in pairs for each in (end, data.ctypes.data)]
        self._loops.gather(messages, *asked, of["message_destroy"], room, sizes, *flat, has_content)
        rows = pa.StructArray.from_arrays(
            [_binary(ends[2], names), _binary(ends[3], contents, has_content)], fields=list(HEADER)
        )
        firsts = np.concatenate([[0], np.cumsum(sizes[2])]).astype(np.int32)
        return Came(
            topics,
            topic.astype(np.int32),
            numbers[0].astype(np.int32),
            numbers[1],
            numbers[2],
            _binary(ends[0], keys, sizes[0] >= 0),
            _binary(ends[1], values, sizes[1] >= 0),
            pa.ListArray.from_arrays(pa.array(firsts), rows),
            reached or {},
        )

    def _without_ends(self, messages: _Numbers) -> tuple[_Numbers, Mapping[tuple[str, int], int]]:
        """Some are no records, but say that the end of a partition was reached. Raises what others say."""
        codes, numbers = np.zeros(len(messages), np.int64), np.zeros((3, len(messages)), np.int64)
        self._loops.find_ends(messages, codes, numbers)
        is_end = codes == KafkaError._PARTITION_EOF
        reached = {
            (self._library.topic_name(handle).decode(), partition): offset
            for partition, offset, handle in numbers[:, is_end].T.tolist()
        }
        wrong = codes[~is_end & (codes != 0)]
        self._loops.end(messages if len(wrong) else messages[is_end], self._of["message_destroy"])
        if len(wrong):
            raise KafkaException(KafkaError(int(wrong[0])))
        return messages[~is_end], reached


class NativeOutgoing:
    """See `Outgoing`."""

    def __init__(self, producer: Producer) -> None:
        from enrich.kafka.columnar import loops

        self._loops: Any = loops
        self._library = Library(_FUNCTIONS)
        self._producer = producer  # the handle lives as long
        self._handle = _handle(producer)
        functions = ("produceva", "headers_new", "header_add", "headers_destroy")
        self._functions = np.array([self._library.address(name) for name in functions], np.int64)
        self._parts = ctypes.create_string_buffer(_PARTS)
        self._topics: dict[str, int] = {}

    def write(self, records: Records, deadline_s: float) -> None:
        topics = np.array([self._topic(name) for name in records.topics], np.int64)[records.topic]
        rows = records.headers.values
        header_ends = _ends(records.headers)
        columns = (
            *_parts_of(records.keys),
            *_parts_of(records.values),
            header_ends,
            *_parts_of(rows.field("key"))[:2],
            *_parts_of(rows.field("value")),
        )
        parts, at, deadline = ctypes.addressof(self._parts), 0, time.monotonic() + deadline_s
        while at < len(records):
            at, error = self._loops.produce(at, self._handle, self._functions, parts, topics, *columns)
            if error:
                self._wait_after(int(error), deadline)

    def close(self) -> None:
        """Before the producer is let go."""
        topics, self._topics = self._topics, {}
        for topic in topics.values():
            self._library.topic_destroy(topic)

    def _wait_after(self, error: int, deadline: float) -> None:
        code = int(self._library.error_code(error))
        self._library.error_destroy(error)
        if code != KafkaError._QUEUE_FULL:
            raise KafkaException(KafkaError(code))
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self._producer.poll(_POLL_S)

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            made = self._library.topic_new(self._handle, name.encode(), None)
            if made is None:
                raise KafkaException(KafkaError(self._library.last_error()))
            self._topics[name] = made
        return self._topics[name]


def _handle(client: Any) -> int:
    return int(ctypes.c_void_p.from_address(id(client) + _AFTER).value or 0)


def _binary(
    ends: npt.NDArray[np.int32], content: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_] | None = None
) -> pa.BinaryArray:
    bits = None
    if valid is not None and not valid.all():
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(ends), pa.py_buffer(content)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends) - 1, buffers)


def _ends(column: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value begins, and where the last one ends."""
    begin = column.offset
    ends = np.frombuffer(column.buffers()[1], np.int32) if len(column) else np.zeros(1, np.int32)
    return ends[begin : begin + len(column) + 1] if len(column) else ends


def _parts_of(column: pa.BinaryArray) -> tuple[npt.NDArray[np.int32], int, npt.NDArray[np.bool_]]:
    """Ends, the address of the content, and which values are there."""
    content = column.buffers()[2] if len(column) else None
    there = np.ones(len(column), np.bool_)
    if column.null_count:
        there = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return _ends(column), content.address if content is not None else 0, there

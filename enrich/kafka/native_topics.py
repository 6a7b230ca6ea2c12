"""Ids, partitions and leaders of many topics, by librdkafka's own functions.

The Python client makes an object for each partition and each replica of an answer: 100 us a partition, for an answer of
which the id of the topic and the number of its partitions is wanted. It does not offer less. What is called here is
part of librdkafka's public interface; see docs/adr/0064.
"""

import ctypes
from collections.abc import Collection, Iterator, Mapping

from enrich.base.errors import ConfigError, Unreachable
from enrich.kafka.clients.making import Connection
from enrich.kafka.librdkafka import INT, POINTER, SIZE, TEXT, Functions, Library

_PRODUCER = 0
_ANY_REQUEST = 0
_DONE = 0
_ROOM = 512

_FUNCTIONS: Functions = {
    "conf_new": (POINTER, []),
    "conf_set": (INT, [POINTER, TEXT, TEXT, TEXT, SIZE]),
    "conf_set_log_cb": (None, [POINTER, POINTER]),
    "conf_destroy": (None, [POINTER]),
    "new": (POINTER, [INT, POINTER, TEXT, SIZE]),
    "destroy": (None, [POINTER]),
    "queue_new": (POINTER, [POINTER]),
    "queue_destroy": (None, [POINTER]),
    "queue_poll": (POINTER, [POINTER, INT]),
    "TopicCollection_of_topic_names": (POINTER, [ctypes.POINTER(TEXT), SIZE]),
    "TopicCollection_destroy": (None, [POINTER]),
    "AdminOptions_new": (POINTER, [POINTER, INT]),
    "AdminOptions_set_request_timeout": (INT, [POINTER, INT, TEXT, SIZE]),
    "AdminOptions_destroy": (None, [POINTER]),
    "DescribeTopics": (None, [POINTER, POINTER, POINTER, POINTER]),
    "event_DescribeTopics_result": (POINTER, [POINTER]),
    "event_error": (INT, [POINTER]),
    "event_error_string": (TEXT, [POINTER]),
    "event_destroy": (None, [POINTER]),
    "DescribeTopics_result_topics": (ctypes.POINTER(POINTER), [POINTER, ctypes.POINTER(SIZE)]),
    "TopicDescription_name": (TEXT, [POINTER]),
    "TopicDescription_error": (POINTER, [POINTER]),
    "TopicDescription_topic_id": (POINTER, [POINTER]),
    "TopicDescription_partitions": (ctypes.POINTER(POINTER), [POINTER, ctypes.POINTER(SIZE)]),
    "TopicPartitionInfo_leader": (POINTER, [POINTER]),
    "Node_id": (INT, [POINTER]),
    "Uuid_base64str": (TEXT, [POINTER]),
    "error_code": (INT, [POINTER]),
}


class NativeTopics:
    """For one thread. A client of its own: the Python client does not lend its handle."""

    def __init__(self, connection: Connection, deadline_s: float) -> None:
        """Raises ConfigError if the library, or the settings, are not what this was written for."""
        self._deadline_ms = int(1000 * deadline_s)
        try:
            self._library = Library(_FUNCTIONS)
        except (OSError, AttributeError) as error:
            raise ConfigError(f"librdkafka lacks a function: {error}") from error
        self._client: int | None = self._new_client(connection)
        self._queue = self._library.queue_new(self._client)

    def identities(self, names: Collection[str]) -> Mapping[str, tuple[str, list[int]]]:
        """Those that could be described, each with its id and partitions. Raises Unreachable without an answer."""
        call, partitions, found = self._library, SIZE(), {}
        for name, topic in self._described(names):
            call.TopicDescription_partitions(topic, ctypes.byref(partitions))
            uuid = call.Uuid_base64str(call.TopicDescription_topic_id(topic)).decode()
            # Kafka numbers them without gaps.
            found[name] = uuid, list(range(partitions.value))
        return found

    def leaders(self, names: Collection[str]) -> Mapping[str, list[int]]:
        """The same, with the id of each partition's leader; -1 for one without. Takes twice as long."""
        call, count, found = self._library, SIZE(), {}
        for name, topic in self._described(names):
            partitions = call.TopicDescription_partitions(topic, ctypes.byref(count))
            leaders = [call.TopicPartitionInfo_leader(each) for each in partitions[: count.value]]
            found[name] = [-1 if leader is None else call.Node_id(leader) for leader in leaders]
        return found

    def close(self) -> None:
        """Twice is allowed: of librdkafka a second time would end the process."""
        client, self._client = self._client, None
        if client is not None:
            self._library.queue_destroy(self._queue)
            self._library.destroy(client)

    def _described(self, names: Collection[str]) -> Iterator[tuple[str, int]]:
        """Name and description of each topic that could be described. They end with the iteration."""
        if self._client is None:
            raise Unreachable("the client is closed")
        if not names:
            return
        call, count = self._library, SIZE()
        event = self._answer(names)
        try:
            result = call.event_DescribeTopics_result(event)
            if result is None or call.event_error(event) != _DONE:
                raise Unreachable(f"topics cannot be described: {(call.event_error_string(event) or b'').decode()}")
            topics = call.DescribeTopics_result_topics(result, ctypes.byref(count))
            for topic in topics[: count.value]:
                if call.error_code(call.TopicDescription_error(topic)) == _DONE:
                    yield call.TopicDescription_name(topic).decode(), topic
        finally:
            call.event_destroy(event)

    def _answer(self, names: Collection[str]) -> int:
        call = self._library
        encoded = (TEXT * len(names))(*(name.encode() for name in names))
        collection = call.TopicCollection_of_topic_names(encoded, len(names))
        options = call.AdminOptions_new(self._client, _ANY_REQUEST)
        call.AdminOptions_set_request_timeout(options, self._deadline_ms, None, 0)
        call.DescribeTopics(self._client, collection, options, self._queue)
        call.AdminOptions_destroy(options)
        call.TopicCollection_destroy(collection)
        # The client itself answers within the deadline, be it by an error.
        event: int = call.queue_poll(self._queue, -1)
        return event

    def _new_client(self, connection: Connection) -> int:
        call, why = self._library, ctypes.create_string_buffer(_ROOM)
        settings = call.conf_new()
        call.conf_set_log_cb(settings, None)
        client: int | None = None
        if all(call.conf_set(settings, *each, why, _ROOM) == _DONE for each in _as_texts(connection)):
            client = call.new(_PRODUCER, settings, why, _ROOM)
        if client is None:
            call.conf_destroy(settings)
            # What librdkafka says may have the value in it.
            raise ConfigError("librdkafka does not take the settings of the connection")
        return client


def _as_texts(connection: Connection) -> Iterator[tuple[bytes, bytes]]:
    for name, value in connection.items():
        yield name.encode(), (str(value).lower() if isinstance(value, bool) else str(value)).encode()

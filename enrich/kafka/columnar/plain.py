"""The same by the Python client's own objects, one for each record: for a client that this code does not know."""

import time
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from enrich.kafka.columnar.records import HEADERS, Came, Records
from enrich.kafka.records import headers_of
from enrich.kafka.writing.queueing import is_queued


class PlainIncoming:
    """See `Incoming`."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def begin(self, offsets: Sequence[TopicPartition]) -> None:
        self._consumer.assign(list(offsets))

    def take(self, most: int, wait_s: float) -> Came | None:
        # consume() waits the whole time unless it gets as many as it was asked for.
        messages = self._consumer.consume(1, wait_s) or []
        if messages:
            messages += self._consumer.consume(most - 1, 0.0)
        records, reached = [], {}
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[message.topic() or "", message.partition() or 0] = message.offset() or 0
            else:
                raise KafkaException(error)
        return _came(records, reached) if messages else None

    def close(self) -> None:
        """Nothing is held."""


class PlainOutgoing:
    """See `Outgoing`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def write(self, records: Records, deadline_s: float) -> None:
        end = time.monotonic() + deadline_s
        # A table of Python lists: a scalar of Arrow for each value would cost more.
        columns = (records.topic.tolist(), records.keys.to_pylist(), records.values.to_pylist(), _pairs(records))
        for topic, key, value, headers in zip(*columns, strict=True):
            while not is_queued(self._producer, records.topics[topic], value, key, headers=headers):
                if time.monotonic() > end:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def close(self) -> None:
        """Nothing is held."""


def _came(messages: list[Message], reached: Mapping[tuple[str, int], int]) -> Came:
    names = [message.topic() or "" for message in messages]
    topics = sorted(set(names))
    places = {name: place for place, name in enumerate(topics)}
    headers = [_named(message) for message in messages]
    return Came(
        topics,
        np.array([places[name] for name in names], np.int32),
        np.array([message.partition() for message in messages], np.int32),
        np.array([message.offset() for message in messages], np.int64),
        np.array([message.timestamp()[1] for message in messages], np.int64),
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array([[{"key": name, "value": value} for name, value in each] for each in headers], HEADERS),
        reached,
    )


def _named(message: Message) -> list[tuple[bytes, bytes | None]]:
    return [(name.encode(), value) for name, value in headers_of(message)]


def _pairs(records: Records) -> list[list[tuple[str, str | bytes | None]]]:
    rows = records.headers.flatten()
    names = [name.decode("utf-8", "replace") for name in rows.field("key").to_pylist()]
    each: list[tuple[str, str | bytes | None]] = list(zip(names, rows.field("value").to_pylist(), strict=True))
    ends = records.headers.offsets.to_numpy() - records.headers.offsets[0].as_py()
    return [each[first:end] for first, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]

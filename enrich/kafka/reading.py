"""Reads a topic from given offsets to given end offsets. Loads of tables and all checks use it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing

import numpy as np
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from enrich.base.errors import Unreachable
from enrich.kafka.clients.errors import NO_MEMBER, kafka_errors, mapped
from enrich.kafka.clients.making import Connection, new_store_consumer

_BATCH = 4_000
"""A million messages take 1.0 s of CPU time in such batches, 1.3 s in batches of 10,000 (measured)."""


def read_to_end(
    consumer: Consumer,
    topic: str,
    start_offsets: Mapping[int, int],
    end_offsets: Mapping[int, int],
    *,
    epochs: Mapping[int, int] | None = None,
    stalled_s: float = 30.0,
) -> Iterator[list[Message]]:
    """Yields batches of all committed records in [start, end) of each partition, in offset order within a partition.

    The consumer comes from `new_store_consumer`. Reading ends when every partition has reached its end. Compaction and
    transaction markers may leave no message there, so the end-of-partition event counts too. `epochs`: leader epoch of
    the record before each start; the brokers then report if the log was truncated since (CorruptState). Raises
    Unreachable after `stalled_s` without progress.
    """
    known = epochs or {}
    unfinished = {
        partition
        for partition, end in end_offsets.items()
        # Where nothing is left to read, the brokers still say whether the log was truncated since.
        if (start := start_offsets.get(partition, 0)) < end or (start == end and known.get(partition, -1) >= 0)
    }
    if not unfinished:
        return
    with kafka_errors(f"topic {topic}"):
        consumer.assign(
            [TopicPartition(topic, p, start_offsets.get(p, 0), leader_epoch=known.get(p, -1)) for p in unfinished]
        )
    last_progress = time.monotonic()
    while unfinished:
        with kafka_errors(f"topic {topic}"):
            events = consumer.consume(_BATCH, 0.05)
        batch = events
        if any(map(Message.error, events)):
            batch = [event for event in events if event.error() is None]
            unfinished -= _ended(topic, events, end_offsets)
        beyond, at_end = _reached(batch, end_offsets)
        if beyond:
            batch = [message for message in batch if _position(message)[1] < end_offsets[_position(message)[0]]]
        unfinished -= at_end
        if events:
            last_progress = time.monotonic()
        elif time.monotonic() - last_progress > stalled_s:
            waiting = ", ".join(str(partition) for partition in sorted(unfinished))
            raise Unreachable(
                f"no record came for {stalled_s:g} s, and the end is not reached",
                where=f"topic {topic}, partitions {waiting}",
                next_step="check that the brokers run and that the partitions have leaders",
            )
        if batch:
            yield batch


def read_topic(
    connection: Connection,
    topic: str,
    start_offsets: Mapping[int, int],
    end_offsets: Mapping[int, int],
    *,
    stalled_s: float = 30.0,
) -> Iterator[list[Message]]:
    """As `read_to_end`, with a consumer of its own."""
    with closing(new_store_consumer(connection)) as consumer:
        yield from read_to_end(consumer, topic, start_offsets, end_offsets, stalled_s=stalled_s)


def _ended(topic: str, events: list[Message], end_offsets: Mapping[int, int]) -> set[int]:
    """The partitions that have reached their end, by end-of-partition events. Raises the errors of other events."""
    ended = set()
    for event in events:
        error = event.error()
        if error is None or error.code() == NO_MEMBER:
            continue
        if error.retriable() and error.code() != KafkaError._PARTITION_EOF:
            continue
        partition, offset = _position(event)
        if error.code() != KafkaError._PARTITION_EOF:
            raise mapped(error, f"topic {topic}, partition {partition}, offset {offset}")
        if offset >= end_offsets[partition]:
            ended.add(partition)
    return ended


def _reached(batch: list[Message], end_offsets: Mapping[int, int]) -> tuple[bool, set[int]]:
    """Whether a message is beyond the end of its partition, and the partitions that have reached their end."""
    # In columns: a loop over the messages would take half as long as decoding them.
    partitions = np.fromiter(map(Message.partition, batch), np.int32, len(batch))
    offsets = np.fromiter(map(Message.offset, batch), np.int64, len(batch))
    beyond, at_end = False, set()
    for partition in np.unique(partitions).tolist():
        last = int(offsets[partitions == partition].max())
        beyond |= last >= end_offsets[partition]
        if last + 1 >= end_offsets[partition]:
            at_end.add(partition)
    return beyond, at_end


def _position(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:  # an event about the client, not about a partition
        raise mapped(message.error() or KafkaError(KafkaError.UNKNOWN))
    return partition, offset

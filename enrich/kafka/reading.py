"""Reads a topic from given offsets to the ends it had when asked: what loading a table and every check build on."""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from enrich.errors import Unreachable
from enrich.kafka.errors import kafka_errors, mapped

_BATCH = 10_000


def read_to_end(
    consumer: Consumer,
    topic: str,
    start_offsets: Mapping[int, int],
    end_offsets: Mapping[int, int],
    *,
    epochs: Mapping[int, int] | None = None,
    stalled_s: float = 30.0,
) -> Iterator[list[Message]]:
    """Batches of all committed records in [start, end) of each partition, in offset order within a partition.

    The consumer is one of `new_store_consumer`. Reading is over when every partition has reached its end: at the end
    of a partition compaction and transaction markers leave no message, so the end-of-partition event counts, never
    the last message. `epochs`: of which leader's term the record before each start is; the brokers then tell whether it
    was cut off since (CorruptState). Raises Unreachable after `stalled_s` without progress.
    """
    unfinished = {p for p, end in end_offsets.items() if start_offsets.get(p, 0) < end}
    if not unfinished:
        return
    with kafka_errors(f"topic {topic}"):
        known = epochs or {}
        consumer.assign(
            [TopicPartition(topic, p, start_offsets.get(p, 0), leader_epoch=known.get(p, -1)) for p in unfinished]
        )
    last_progress = time.monotonic()
    while unfinished:
        batch = []
        with kafka_errors(f"topic {topic}"):
            events = consumer.consume(_BATCH, 0.05)
        for message in events:
            partition, offset = _place(message)
            error = message.error()
            if error is None:
                if offset < end_offsets[partition]:
                    batch.append(message)
                at_end = offset + 1 >= end_offsets[partition]
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end = offset >= end_offsets[partition]
            elif error.retriable():
                continue
            else:
                raise mapped(error, f"topic {topic}, partition {partition}, offset {offset}")
            if at_end:
                unfinished.discard(partition)
        if events:
            last_progress = time.monotonic()
        elif time.monotonic() - last_progress > stalled_s:
            waiting = ", ".join(str(partition) for partition in sorted(unfinished))
            raise Unreachable(
                f"nothing came for {stalled_s:g} s, and the end is not reached",
                where=f"topic {topic}, partitions {waiting}",
                next_step="check that the brokers run and that the partitions have leaders",
            )
        if batch:
            yield batch


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:  # an event about the client, not about a place in a topic
        raise mapped(message.error() or KafkaError(KafkaError.UNKNOWN))
    return partition, offset

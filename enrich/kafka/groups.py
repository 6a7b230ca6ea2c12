"""What consumer groups have committed."""

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition

from enrich.base.errors import Retryable
from enrich.kafka.clients.errors import kafka_errors

_TRY_AGAIN_S = 0.1


def committed(
    consumer: Consumer, group: str, topic: str, partitions: Iterable[int], *, deadline_s: float = 10.0
) -> list[TopicPartition]:
    """What the consumer's group has committed of a topic; see `committed_of`."""
    return committed_of(consumer, group, ((topic, each) for each in partitions), deadline_s=deadline_s)


def committed_of(
    consumer: Consumer, group: str, partitions: Iterable[tuple[str, int]], *, deadline_s: float = 10.0
) -> list[TopicPartition]:
    """What the consumer's group has committed, with its metadata; without partitions where it has committed nothing. If
    the consumer reads what is committed, it waits for open transactions. Raises Retryable.

    Not with the admin client: its call crashes the process while a group's coordinator moves (librdkafka 2.16).
    """
    asked = [TopicPartition(*each) for each in partitions]
    if not asked:
        return []
    end = time.monotonic() + deadline_s
    while True:
        try:
            with kafka_errors(f"consumer group {group}"):
                answered = consumer.committed(asked, timeout=deadline_s)
                for each in answered:
                    if each.error is not None:
                        raise KafkaException(each.error)
        except Retryable:  # a newly elected coordinator has not loaded the group yet
            if time.monotonic() > end:
                raise
            time.sleep(_TRY_AGAIN_S)
        else:
            return [one for one in answered if one.offset >= 0]

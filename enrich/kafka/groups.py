"""What consumer groups have committed."""

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from enrich.base.errors import Retryable
from enrich.kafka.clients.errors import kafka_errors

_TRY_AGAIN_S = 0.1


def committed(
    consumer: Consumer, group: str, topic: str, partitions: Iterable[int], *, deadline_s: float = 10.0
) -> list[TopicPartition]:
    """What the consumer's group has committed, with its metadata; without partitions where it has committed nothing.

    Not with the admin client: its call crashes the process while a group's coordinator moves (librdkafka 2.16).
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]
    end = time.monotonic() + deadline_s
    while True:
        try:
            with kafka_errors(f"consumer group {group}, topic {topic}"):
                answered = consumer.committed(asked, timeout=deadline_s)
        except Retryable:  # a newly elected coordinator has not loaded the group yet
            if time.monotonic() > end:
                raise
            time.sleep(_TRY_AGAIN_S)
        else:
            return [one for one in answered if one.offset >= 0]

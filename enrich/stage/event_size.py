"""How large the events of a topic are, from its newest ones."""

import time
from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import KafkaError, TopicPartition

from enrich.kafka import Connection, new_store_consumer
from enrich.kafka.errors import kafka_errors

_PARTITIONS = 16
"""So many are enough, and each is asked for by itself."""
_OF_EACH_PARTITION = 20
_PATIENCE_S = 3.0


def mean_event_bytes(connection: Connection, topic: str, partitions: Sequence[int]) -> int:
    """0 where there are none, or where the brokers do not answer in time: it is no more than a hint."""
    sizes: list[int] = []
    deadline = time.monotonic() + _PATIENCE_S
    with closing(new_store_consumer(connection)) as consumer, kafka_errors(f"topic {topic}"):
        places = []
        for number in partitions[:_PARTITIONS]:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_PATIENCE_S)
            places.append(TopicPartition(topic, number, max(first, end - _OF_EACH_PARTITION)))
        consumer.assign(places)
        ended = 0
        while ended < len(places) and time.monotonic() < deadline:
            for message in consumer.consume(_OF_EACH_PARTITION * len(places), 0.1):
                error = message.error()
                if error is None:
                    sizes.append(len(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
    return round(sum(sizes) / len(sizes)) if sizes else 0

"""The partitions that a flow has now, and what its consumer is told about each of them."""

from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from enrich.base.errors import EnrichError, Retryable
from enrich.delivery.partitions.gaps import Bounds
from enrich.delivery.partitions.positions import Partition
from enrich.kafka import kafka_errors

DEADLINE_S = 10.0


class Assigned:
    """Written by the flow's thread. `all` and `lag` may be called by others: they do not touch the consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.fault: EnrichError | None = None
        """What failed in a callback of the client, where it would lose its type: the next poll raises it."""
        self._partitions: dict[tuple[str, int], Partition] = {}

    def all(self) -> list[Partition]:
        return list(self._partitions.values())

    def get(self, topic: str | None, number: int | None) -> Partition | None:
        return None if topic is None or number is None else self._partitions.get((topic, number))

    def add(self, partition: Partition) -> None:
        self._partitions[partition.topic, partition.number] = partition

    def remove(self, topic: str, number: int) -> None:
        self._partitions.pop((topic, number), None)

    def lag(self) -> int | None:
        """How many records of the partitions are not yet written; None before the ends are known."""
        total = 0
        for partition in self.all():
            if partition.end is None:
                return None
            total += max(0, partition.end - partition.position)
        return total

    def hold(self, partition: Partition, until: float) -> None:
        """Reads nothing of it, and does not write it before this moment of the monotonic clock."""
        partition.due = until
        if not partition.paused:
            with kafka_errors():
                self.consumer.pause([partition.in_kafka])
            partition.paused = True

    def release(self, partition: Partition) -> None:
        if partition.paused:
            with kafka_errors():
                self.consumer.resume([partition.in_kafka])
            partition.paused = False

    def go_to(self, partition: Partition, offset: int) -> None:
        """Continues there, and drops what was read and is not yet written. Raises Retryable if the client cannot: one
        whose topic was deleted meanwhile refuses, and another client begins."""
        partition.go_to(offset)
        try:
            self.consumer.seek(TopicPartition(partition.topic, partition.number, offset))
        except KafkaException as error:
            where = f"topic {partition.topic}, partition {partition.number}"
            raise Retryable(f"Kafka: {error.args[0]}", where=where) from error

    def read_from(self, partition: Partition, offset: int) -> None:
        """Continues there, and keeps what was read. For a client that has lost the place: it refuses to seek."""
        place = TopicPartition(partition.topic, partition.number, offset)
        with kafka_errors(f"topic {partition.topic}, partition {partition.number}"):
            self.consumer.incremental_unassign([partition.in_kafka])
            self.consumer.incremental_assign([place])
            if partition.paused:
                self.consumer.pause([partition.in_kafka])

    def bounds(self, topic_partition: TopicPartition, deadline_s: float) -> Bounds | None:
        """Asks the brokers. None if they do not answer now."""
        with suppress(KafkaException):
            return Bounds(*self.consumer.get_watermark_offsets(topic_partition, timeout=deadline_s, cached=False))
        return None

    def look_at_ends(self) -> None:
        """Reads the end offsets from the client's cache: no broker is asked."""
        for partition in self.all():
            with suppress(KafkaException):
                known = self.consumer.get_watermark_offsets(partition.in_kafka, cached=True)
                if known is not None and known[1] >= 0:
                    partition.end = known[1]

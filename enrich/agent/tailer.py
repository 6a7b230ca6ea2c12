"""Follows topics by hand-assigned partitions, and says for each what came, how far it is read, and what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from enrich.errors import CorruptState, EnrichError
from enrich.kafka.errors import kafka_errors, mapped
from stores.table import Offsets


@dataclass
class Tailed:
    """What one poll brought of one topic."""

    messages: list[Message] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    """Partition -> everything below is read. Moves over compaction gaps and transaction markers too."""
    fault: EnrichError | None = None
    """Set when this topic cannot be followed from here: only a rebuild is right."""


class Tailer:
    """One consumer for all topics of a store; partitions come and go while it runs."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._followed: dict[str, set[int]] = {}

    @property
    def followed(self) -> Mapping[str, set[int]]:
        return self._followed

    def follow(self, topic: str, positions: Offsets) -> None:
        """Reads these partitions from these offsets on. Partitions that are followed already stay where they are."""
        new = {p: offset for p, offset in positions.items() if p not in self._followed.get(topic, set())}
        with kafka_errors(f"topic {topic}"):
            self._consumer.incremental_assign([TopicPartition(topic, p, offset) for p, offset in new.items()])
        self._followed.setdefault(topic, set()).update(new)

    def leave(self, topic: str) -> None:
        """Reads the topic no more."""
        partitions = self._followed.pop(topic, set())
        with kafka_errors(f"topic {topic}"):
            self._consumer.incremental_unassign([TopicPartition(topic, p) for p in partitions])

    def poll(self, most: int, seconds: float) -> dict[str, Tailed]:
        """What came within the time, at most so many records. A topic with a fault is left by itself."""
        came: dict[str, Tailed] = {}
        with kafka_errors():
            events = self._consumer.consume(most, seconds)
        for message in events:
            self._take(message, came)
        for topic, tailed in came.items():
            if tailed.fault is not None:
                self.leave(topic)
        return came

    def close(self) -> None:
        self._consumer.close()

    def _take(self, message: Message, came: dict[str, Tailed]) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or partition not in self._followed.get(topic, set()):
            return  # about the client and not a place, or left in the meantime
        tailed = came.setdefault(topic, Tailed())
        error = message.error()
        if error is None and offset is not None:
            tailed.messages.append(message)
            tailed.positions[partition] = offset + 1
        elif error is not None and error.code() == KafkaError._PARTITION_EOF and offset is not None:
            tailed.positions[partition] = max(offset, tailed.positions.get(partition, 0))
        elif error is not None and not error.retriable():
            fault = mapped(error, f"topic {topic}, partition {partition}, offset {offset}")
            if isinstance(fault, CorruptState):
                tailed.fault = fault

"""Reads records in columns."""

from collections.abc import Sequence
from typing import Protocol

from confluent_kafka import Consumer, TopicPartition

from enrich.kafka.columnar.native import NativeIncoming, is_known
from enrich.kafka.columnar.plain import PlainIncoming
from enrich.kafka.columnar.records import Came


class Incoming(Protocol):
    """For the thread of one consumer."""

    def begin(self, offsets: Sequence[TopicPartition]) -> None:
        """Assigns these partitions to the consumer, from these offsets. Once."""

    def take(self, most: int, wait_s: float) -> Came | None:
        """What is there, at most so many records, and which ends were reached; None if there is nothing after so long.
        Raises KafkaException."""

    def close(self) -> None:
        """Before the consumer is closed."""


def incoming(consumer: Consumer) -> Incoming:
    return NativeIncoming(consumer) if is_known() else PlainIncoming(consumer)

"""Writes records in columns."""

from typing import Protocol

from confluent_kafka import Producer

from enrich.kafka.columnar.native import NativeOutgoing, is_known
from enrich.kafka.columnar.plain import PlainOutgoing
from enrich.kafka.columnar.records import Records


class Outgoing(Protocol):
    """For the thread of one producer."""

    def write(self, records: Records, deadline_s: float) -> None:
        """Queues the records in this order. Raises KafkaException, also if not all are queued after so long, as the
        queue is full. Nobody is told of their delivery: that is what transactions are for."""

    def close(self) -> None:
        """Before the producer is let go."""


def outgoing(producer: Producer) -> Outgoing:
    return NativeOutgoing(producer) if is_known() else PlainOutgoing(producer)

"""Transactions of any size, which can also commit consumer offsets."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from enrich.kafka.clients.making import Connection
from enrich.kafka.writing.delivering import Headers
from enrich.kafka.writing.queueing import is_queued
from enrich.kafka.writing.transactions import TransactionalProducer

Record = tuple[bytes | None, bytes | None, Any, int]
"""Key, value, headers (a list of pairs) and partition."""

LONGEST_S = 900.0
"""The brokers' default of transaction.max.timeout.ms."""


class WholeTransactions(TransactionalProducer):
    """Like its base class, but keeps nothing per record: a transaction may have millions. Its spans stay empty.

    A record that is not delivered makes the commit fail.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        deadline_s: float = 30.0,
        timeout_s: float = LONGEST_S,
    ) -> None:
        super().__init__(connection, transactional_id, deadline_s=deadline_s, timeout_s=timeout_s)

    @property
    def _of_each(self) -> Mapping[str, Any]:
        return {}

    def produce_one(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        time_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Queues a record with headers and a timestamp, which the client does not accept in batches."""
        # The client takes 0 for now, which may be decades later.
        options: dict[str, Any] = {} if time_ms is None else {"timestamp": time_ms or 1}
        if partition is not None:
            options["partition"] = partition
        given: list[Any] = list(headers.items() if isinstance(headers, Mapping) else headers)
        with self.errors_of(f"topic {topic}"):
            while not is_queued(self._producer, topic, value, key, headers=given, **options):
                pass
        self._producer.poll(0)

    def produce_all(self, topic: str, records: Iterable[Record]) -> None:
        """Queues records with headers, each for its partition, in half the time that `produce_one` takes."""
        producer = self._producer
        with self.errors_of(f"topic {topic}"):
            for key, value, headers, partition in records:
                while not is_queued(producer, topic, value, key, partition, headers=headers):
                    pass

    def progress(self, topic: str, offsets: Mapping[int, int], consumer: Consumer, note: str = "") -> None:
        """Commits the offsets for the consumer's group within this transaction."""
        positions = [TopicPartition(topic, partition, offset, metadata=note) for partition, offset in offsets.items()]
        self.send_offsets(positions, consumer.consumer_group_metadata())


@contextmanager
def whole_transaction(connection: Connection, transactional_id: str, deadline_s: float) -> Iterator[WholeTransactions]:
    """Produces all records of the block in one transaction. Every reader can see them when it returns."""
    producer = WholeTransactions(connection, transactional_id, deadline_s=deadline_s)
    with closing(producer):
        producer.start()
        with producer.transaction():
            yield producer
        producer.settle()

"""Topics in tests: made for one test, filled with ids, and read back as exact ids, because counts cancel."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from enrich.errors import ConfigError
from enrich.kafka import (
    Connection,
    DeliveringProducer,
    Topics,
    new_admin_client,
    new_store_consumer,
    read_to_end,
)
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Cluster:
    """The broker that tests share, and the ways they use it."""

    connection: Connection

    @property
    def topics(self) -> Topics:
        return Topics(new_admin_client(self.connection))

    def make_again(self, topic: str, **settings: Any) -> None:
        """Deletes the topic and makes another of its name, which the brokers know when it returns."""

        def is_known() -> bool:
            with suppress(ConfigError):
                return bool(self.topics.topic_id(topic))
            return False

        self.topics.delete(topic)
        wait_until(lambda: not self.topics.exists(topic), what="the topic's end")
        self.topics.create(topic, config={"cleanup.policy": "compact"}, **settings)
        wait_until(is_known, what="the new topic")

    def produce(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Produces (key, value) records; all are acknowledged when it returns."""
        with DeliveringProducer(self.connection) as producer:
            for key, value in records:
                producer.produce(topic, key, value)

    def produce_ids(self, topic: str, ids: Iterable[int]) -> None:
        """One record an id, which is both key and value."""
        self.produce(topic, ((str(one).encode(), str(one).encode()) for one in ids))

    def messages(self, topic: str, start_offsets: Mapping[int, int] | None = None) -> list[Message]:
        """All committed records that the topic holds now."""
        consumer = new_store_consumer(self.connection)
        try:
            starts = start_offsets or self.topics.start_offsets(topic)
            ends = self.topics.end_offsets(topic)
            return [message for batch in read_to_end(consumer, topic, starts, ends) for message in batch]
        finally:
            consumer.close()

    def ids(self, topic: str) -> Counter[int]:
        """How often each id stands in the topic: compare with a set for completeness, with a Counter for exactness."""
        return Counter(int(value) for message in self.messages(topic) if (value := message.value()) is not None)

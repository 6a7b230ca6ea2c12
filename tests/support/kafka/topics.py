"""Topics in tests: made for one test, filled with ids, and read back as exact ids, because counts cancel."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import psutil
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from enrich.base.errors import ConfigError, EnrichError
from enrich.kafka import (
    Connection,
    DeliveringProducer,
    Topics,
    new_admin_client,
    new_store_consumer,
    read_to_end,
)
from tests.support.processes import frozen
from tests.support.waiting import GUARD_S, wait_until

_WITHOUT_SEQUENCE = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
"""Tests take from a broker what it had acknowledged. A producer that counts its records would then give up."""


def delete_records(connection: Connection, topic: str, below: Mapping[int, int]) -> None:
    """As retention does, in each partition all before that offset."""
    admin = new_admin_client(connection)  # whose futures stay open once it is gone
    places = [TopicPartition(topic, partition, offset) for partition, offset in below.items()]
    for future in admin.delete_records(places).values():
        future.result(GUARD_S)


@dataclass(frozen=True)
class Cluster:
    """The broker that tests share, and the ways they use it."""

    connection: Connection
    _producers: list[DeliveringProducer] = field(default_factory=list, compare=False)
    _known: dict[str, tuple[str, int]] = field(default_factory=dict, compare=False)
    """Each topic that the kept producer was used for: its id and number of partitions."""

    @cached_property
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

    def take_at_most(self, topic: str, size: int) -> None:
        """Larger records are refused."""
        self.alter(topic, "max.message.bytes", size)

    def alter(self, topic: str, setting: str, value: object) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entry = ConfigEntry(setting, str(value), incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        admin = new_admin_client(self.connection)
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(GUARD_S)

    def produce(
        self,
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None]],
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Produces (key, value) records; all are acknowledged when it returns."""
        producer = self._producer(topic)
        try:
            for key, value in records:
                producer.produce(topic, key, value, headers=list(headers))
            producer.flush()
        except EnrichError:
            self._producers.clear()  # it would raise this for ever
            raise

    def produce_ids(self, topic: str, ids: Iterable[int]) -> None:
        """One record an id, which is both key and value."""
        self.produce(topic, ((str(one).encode(), str(one).encode()) for one in ids))

    @contextmanager
    def brokers_away(self) -> Iterator[None]:
        """Inside the block the broker stands still, for everybody."""
        with frozen(self.broker_pid()):
            yield

    def broker_pid(self) -> int:
        port = int(self.connection["bootstrap.servers"].rpartition(":")[2])
        listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        (pid,) = {each.pid for each in listening if tuple(each.laddr)[1:] == (port,) and each.pid is not None}
        return pid

    def messages(self, topic: str, start_offsets: Mapping[int, int] | None = None) -> list[Message]:
        """All committed records that the topic holds now."""
        consumer = new_store_consumer(self.connection)
        try:
            starts = start_offsets or self.topics.start_offsets(topic)
            ends = self.topics.end_offsets(topic)
            return [message for batch in read_to_end(consumer, topic, starts, ends) for message in batch]
        finally:
            consumer.close()

    def _producer(self, topic: str) -> DeliveringProducer:
        """Kept, because its first record takes half a second; another one for a topic that was recreated or has
        more partitions, of which the kept one does not know."""
        topic_id, partitions = self.topics.identity(topic)
        place = (topic_id, len(partitions))
        if not self._producers or self._known.setdefault(topic, place) != place:
            self._known.clear()
            self._known[topic] = place
            self._producers[:] = [DeliveringProducer(self.connection, **_WITHOUT_SEQUENCE)]
        return self._producers[0]

    def ids(self, topic: str) -> Counter[int]:
        """How often each id stands in the topic: compare with a set for completeness, with a Counter for exactness."""
        return Counter(int(value) for message in self.messages(topic) if (value := message.value()) is not None)

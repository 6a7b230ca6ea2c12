"""Topics as the product needs them: made, deleted, described, and where they end for a read-committed reader."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from enrich.errors import Unreachable
from enrich.kafka.errors import kafka_errors

COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}


class Topics:
    """The topics of one cluster, seen through one admin client. Every call ends within the deadline."""

    def __init__(self, admin: AdminClient, deadline_s: float = 30.0) -> None:
        self._admin = admin
        self._deadline_s = deadline_s

    def create(
        self, name: str, *, partitions: int = 1, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Returns once the topic can be used. Raises ConfigError if it is there already."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        self._only(self._admin.create_topics([new], **self._deadlines()), f"topic {name}")

    def delete(self, name: str) -> None:
        self._only(self._admin.delete_topics([name], **self._deadlines()), f"topic {name}")

    def exists(self, name: str) -> bool:
        with kafka_errors():
            return name in self._admin.list_topics(timeout=self._deadline_s).topics

    def topic_id(self, name: str) -> str:
        """Changes when the topic is deleted and made again under the same name. Raises ConfigError if there is none."""
        described = self._describe(name)
        return str(described.topic_id)

    def partitions(self, name: str) -> list[int]:
        """Raises ConfigError if the topic does not exist."""
        return sorted(partition.id for partition in self._describe(name).partitions)

    def end_offsets(self, name: str) -> dict[int, int]:
        """For each partition the last stable offset: everything below it is committed or aborted for good."""
        return self._offsets(name, OffsetSpec.latest())  # type: ignore[no-untyped-call] # the client left it untyped

    def start_offsets(self, name: str) -> dict[int, int]:
        """For each partition the first offset that the broker still has."""
        return self._offsets(name, OffsetSpec.earliest())  # type: ignore[no-untyped-call] # the same

    def _offsets(self, name: str, spec: OffsetSpec) -> dict[int, int]:
        request = {TopicPartition(name, partition): spec for partition in self.partitions(name)}
        with kafka_errors(f"topic {name}"):
            futures = self._admin.list_offsets(
                request, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._deadline_s
            )
            return {place.partition: self._result(future).offset for place, future in futures.items()}

    def _describe(self, name: str) -> Any:
        futures = self._admin.describe_topics(TopicCollection([name]), request_timeout=self._deadline_s)
        return self._only(futures, f"topic {name}")

    def _deadlines(self) -> dict[str, float]:
        # The brokers' for doing it and the client's for reaching them: each alone leaves the other at a minute.
        return {"operation_timeout": self._deadline_s, "request_timeout": self._deadline_s}

    def _only(self, futures: Mapping[str, "Future[Any]"], where: str) -> Any:
        (future,) = futures.values()
        with kafka_errors(where):
            return self._result(future)

    def _result(self, future: "Future[Any]") -> Any:
        # The client keeps its own deadline; this one is a little later and only guards against a future left open.
        try:
            return future.result(timeout=self._deadline_s + 5)
        except TimeoutError:
            raise Unreachable(f"no answer from the brokers within {self._deadline_s:g} s") from None

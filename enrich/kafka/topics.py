"""Creates, deletes and describes topics, and finds their end offsets for read-committed readers."""

import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from enrich.base.errors import ConfigError, EnrichError, Unreachable
from enrich.kafka.clients.errors import code_of, kafka_errors
from enrich.kafka.clients.making import Admin
from enrich.kafka.clients.reaching import PATIENCE_S, Why, explained, trouble_with

COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}

_KNOWN_EVERY_S = 0.02
_STALE_LEADER = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""The leader of a partition has changed, and not all know it yet. The client itself retries only one of these."""
_LEADER_EVERY_S = 0.1
_UNMADE_S = 10.0
"""How long a topic that was just described may have partitions that their broker does not know: a busy broker learns of
a new topic before it makes the partitions."""
_NO_ANSWER = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
}
"""Errors by which the client reports no answer without saying from which broker or why."""
_NOT_THERE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}
"""What a broker answers about a topic that there is not, or that has no name of one."""
_NOT_SEEN = {*_NOT_THERE, KafkaError.TOPIC_AUTHORIZATION_FAILED}
"""The same, and about one that this user may not see."""
_DIAGNOSIS_S = 5.0
"""How long a diagnosis is reused for other requests that got no answer."""


@dataclass(frozen=True)
class TopicEnds:
    """The id and the end offsets of a topic at one moment."""

    topic_id: str
    offsets: Mapping[int, int]
    """The last stable offsets, from a request that was sent after the id was known."""


class Topics:
    """The topics of one cluster, by one admin client. Every call ends within the deadline, and sooner if no broker can
    be reached: then the error says which address does not answer, and why."""

    def __init__(self, admin: Admin, deadline_s: float = 30.0) -> None:
        self._admin = admin
        self._deadline_s = deadline_s
        self._diagnosis: tuple[float, Why] | None = None

    def create(
        self, name: str, *, partitions: int = 1, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Returns when the topic can be used. Raises ConfigError if it exists already."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        self._only(self._admin.create_topics([new], **self._deadlines()), f"topic {name}")
        self._wait_until_known(name)

    def ensure(
        self, name: str, *, partitions: int = 1, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> bool:
        """Creates the topic if it does not exist; an existing one is not changed. Returns whether it was created."""
        if self.exists(name):
            return False
        try:
            self.create(name, partitions=partitions, replication=replication, config=config)
        except ConfigError as error:
            if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                self._wait_until_known(name)
                return False  # another process was faster
            raise
        return True

    def grow(self, name: str, partitions: int) -> None:
        """Adds partitions, until the topic has so many. Raises ConfigError if it has as many already."""
        self._only(
            self._admin.create_partitions([NewPartitions(name, partitions)], **self._deadlines()), f"topic {name}"
        )

    def delete(self, name: str) -> None:
        self._only(self._admin.delete_topics([name], **self._deadlines()), f"topic {name}")

    def names(self, prefix: str) -> list[str]:
        """The topics with this prefix that this user may see."""
        return sorted(name for name in self._all() if name.startswith(prefix))

    def exists(self, name: str) -> bool:
        """Whether this user may see such a topic. Asks for it alone: a cluster may have thousands of others."""
        return self._found(name, _NOT_SEEN)

    def is_there(self, name: str) -> bool:
        """Whether there is such a topic. Raises ConfigError if this user may not see it: then brokers do not say."""
        return self._found(name, _NOT_THERE)

    def _found(self, name: str, none: Collection[int]) -> bool:
        """`none`: what a broker answers where there is none. Raises its other answers."""
        found = self.identities([name])[name]
        if isinstance(found, EnrichError) and code_of(found) not in none:
            raise found
        return not isinstance(found, EnrichError)

    def is_hidden(self, name: str) -> bool:
        """Whether this user may not see such a topic: then brokers do not say whether there is one."""
        found = self.identities([name])[name]
        return isinstance(found, EnrichError) and code_of(found) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def topic_id(self, name: str) -> str:
        """Changes if the topic is deleted and recreated under the same name. Raises ConfigError if there is none."""
        return self.identity(name)[0]

    def partitions(self, name: str) -> list[int]:
        """Raises ConfigError if the topic does not exist."""
        return self.identity(name)[1]

    def identity(self, name: str) -> tuple[str, list[int]]:
        """Id and partitions at one moment. Raises ConfigError if the topic does not exist."""
        found = self.identities([name])[name]
        if isinstance(found, EnrichError):
            raise found
        return found

    def identities(self, names: Collection[str]) -> Mapping[str, tuple[str, list[int]] | EnrichError]:
        """The same of many topics, in one request; for a topic that does not exist the error. Raises Unreachable."""
        if not names:
            return {}
        with self._errors():
            futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._deadline_s)
        return {
            name: one
            if isinstance(one, EnrichError)
            else (str(one.topic_id), sorted(each.id for each in one.partitions))
            for name, one in self._outcomes(futures).items()
        }

    def end_offsets(self, name: str) -> dict[int, int]:
        """For each partition the last stable offset: every transaction below it is committed or aborted."""
        return self._offsets(name, OffsetSpec.latest())  # type: ignore[no-untyped-call] # the client left it untyped

    def ends(self, names: Collection[str]) -> Mapping[str, TopicEnds | EnrichError]:
        """The ends of many topics in two requests. A topic with an error does not affect the others."""
        if not names:
            return {}
        with self._errors():
            futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._deadline_s)
        described = {name: self._outcome(future, f"topic {name}") for name, future in futures.items()}
        asked = {
            TopicPartition(name, partition.id): OffsetSpec.latest()  # type: ignore[no-untyped-call] # the client's
            for name, topic in described.items()
            if not isinstance(topic, EnrichError)
            for partition in topic.partitions
        }
        ends: dict[str, TopicEnds | EnrichError] = {
            name: topic if isinstance(topic, EnrichError) else TopicEnds(str(topic.topic_id), {})
            for name, topic in described.items()
        }
        offsets: dict[str, dict[int, int]] = {name: {} for name in names}
        for topic_partition, future in self._list_offsets(asked).items():
            answer = self._outcome(future, f"topic {topic_partition.topic}, partition {topic_partition.partition}")
            if isinstance(answer, EnrichError):
                ends[topic_partition.topic] = answer
            else:
                offsets[topic_partition.topic][topic_partition.partition] = answer.offset
        return {
            name: end if isinstance(end, EnrichError) else TopicEnds(end.topic_id, offsets[name])
            for name, end in ends.items()
        }

    def offsets_at(self, name: str, time_ms: int) -> dict[int, int]:
        """For each partition the first offset whose record is not older than this; its end offset if there is none."""
        ends = self.end_offsets(name)  # first: of what comes meanwhile nothing is passed by
        # Negative ones stand for the end and the beginning, and most for nothing.
        later = self._offsets(name, OffsetSpec.for_timestamp(max(time_ms, 0)))
        return {partition: ends.get(partition, 0) if offset < 0 else offset for partition, offset in later.items()}

    def settings(self, name: str) -> Mapping[str, str]:
        """The topic's effective configuration. Raises ConfigError if this user may not read it."""
        found = self.settings_of([name])[name]
        if isinstance(found, EnrichError):
            raise found
        return found

    def settings_of(self, names: Collection[str]) -> Mapping[str, Mapping[str, str] | EnrichError]:
        """The same of many topics, in one request; for a topic whose settings this user may not read the error. Raises
        Unreachable."""
        if not names:
            return {}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        with self._errors():
            futures = self._admin.describe_configs(resources, request_timeout=self._deadline_s)
        found = self._outcomes({resource.name: future for resource, future in futures.items()})
        return {
            name: _naming_the_right(one)
            if isinstance(one, EnrichError)
            else {e.name: e.value for e in one.values() if e.value is not None}
            for name, one in found.items()
        }

    def written_offsets(self, name: str) -> dict[int, int]:
        """For each partition the end of all that was written, committed or not."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # the same
        return self._offsets(name, latest, IsolationLevel.READ_UNCOMMITTED)

    def start_offsets(self, name: str) -> dict[int, int]:
        """For each partition the first offset that the broker still has."""
        return self._offsets(name, OffsetSpec.earliest())  # type: ignore[no-untyped-call] # the same

    def newest_offsets(self, name: str, count: int) -> tuple[dict[int, int], dict[int, int]]:
        """For each partition where its last so many offsets begin, and their end."""
        firsts, ends = self.start_offsets(name), self.end_offsets(name)
        return {partition: max(firsts.get(partition, 0), end - count) for partition, end in ends.items()}, ends

    def _offsets(
        self, name: str, spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[int, int]:
        request = {TopicPartition(name, partition): spec for partition in self.partitions(name)}
        began = time.monotonic()
        while True:
            with self._errors(f"topic {name}"):
                try:
                    futures = self._list_offsets(request, isolation)
                    return {one.partition: self._result(future).offset for one, future in futures.items()}
                except KafkaException as exception:
                    if time.monotonic() - began > self._patience_with(exception.args[0].code()):
                        raise
            time.sleep(_LEADER_EVERY_S)

    def _patience_with(self, code: int) -> float:
        """How long, in seconds, this answer to a question for offsets may only mean that a broker is behind."""
        if code in _STALE_LEADER:
            return self._deadline_s
        return min(_UNMADE_S, self._deadline_s) if code == KafkaError.UNKNOWN_TOPIC_OR_PART else 0.0

    def _list_offsets(
        self,
        request: Mapping[TopicPartition, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> "Mapping[TopicPartition, Future[Any]]":
        if not request:
            return {}
        futures: Mapping[TopicPartition, Future[Any]] = self._admin.list_offsets(
            dict(request), isolation_level=isolation, request_timeout=self._deadline_s
        )
        return futures

    def _outcomes(self, futures: "Mapping[str, Future[Any]]") -> Mapping[str, Any]:
        """Of each topic the result, or the error of our tree. Raises Unreachable: each other one would wait as long."""
        outcomes = {}
        for name, future in futures.items():
            outcomes[name] = self._outcome(future, f"topic {name}")
            if isinstance(outcomes[name], Unreachable):
                raise outcomes[name]
        return outcomes

    def _outcome(self, future: "Future[Any]", where: str) -> Any:
        """The result, or the error of our tree."""
        try:
            with self._errors(where):
                return self._result(future)
        except EnrichError as error:
            return error

    def _all(self) -> Collection[str]:
        patience = min(PATIENCE_S, self._deadline_s)
        with suppress(KafkaException):
            return set(self._admin.list_topics(timeout=patience).topics)
        self._require_reachable()
        with self._errors():
            return set(self._admin.list_topics(timeout=max(self._deadline_s - patience, 0.1)).topics)

    def _wait_until_known(self, name: str) -> None:
        """The controller has created it; a busy broker may learn of it later."""
        end = time.monotonic() + self._deadline_s
        while not self._is_known(name) and time.monotonic() < end:
            time.sleep(_KNOWN_EVERY_S)

    def _is_known(self, name: str) -> bool:
        with suppress(ConfigError):
            return bool(self.topic_id(name))
        return False

    def _deadlines(self) -> dict[str, float]:
        # One for the brokers to do it and one for the client to reach them: without both, one would be a minute.
        return {"operation_timeout": self._deadline_s, "request_timeout": self._deadline_s}

    def _only(self, futures: Mapping[Any, "Future[Any]"], where: str) -> Any:
        (future,) = futures.values()
        with self._errors(where):
            return self._result(future)

    def _result(self, future: "Future[Any]") -> Any:
        with suppress(TimeoutError):
            return future.result(timeout=PATIENCE_S)
        self._require_reachable()
        # The client has its own deadline; this one is a little later, in case a future is never resolved.
        try:
            return future.result(timeout=max(self._deadline_s - PATIENCE_S, 0) + 5)
        except TimeoutError:
            raise Unreachable(f"no answer from the brokers within {self._deadline_s:g} s") from None

    def _require_reachable(self) -> None:
        """Called after some silence. Raises the reason if no broker can be reached; returns if they are only slow."""
        trouble = trouble_with(self._admin.connection)
        if trouble is not None:
            self._diagnosis = time.monotonic(), trouble
            raise trouble.error()

    @contextmanager
    def _errors(self, where: str | None = None) -> Iterator[None]:
        """Re-raises the client's errors as errors of our tree that say why there was no answer."""
        try:
            with kafka_errors(where):
                yield
        except Unreachable as error:
            if code_of(error) not in _NO_ANSWER:
                raise
            if self._diagnosis is None or time.monotonic() - self._diagnosis[0] > _DIAGNOSIS_S:
                found = explained(self._admin.connection, error)
                self._diagnosis = time.monotonic(), found
            raise self._diagnosis[1].error() from error.__cause__


def _naming_the_right(error: EnrichError) -> EnrichError:
    """Of a topic's settings: the brokers only say that a right is missing."""
    if code_of(error) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        error.next_step = "grant this user DESCRIBE_CONFIGS on the topic"
    return error

"""How far a stage is, kept in its consumer group: for lag tools, to notice a lost checkpoint, and to fence a second
driver."""

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from confluent_kafka import Consumer, KafkaError, TopicPartition

from enrich.base.errors import ConfigError, EnrichError, Fenced, Retryable
from enrich.config.groups import stage_group
from enrich.kafka import Connection, new_group_consumer
from enrich.kafka.clients.errors import code_of, mapped
from enrich.kafka.groups import committed
from enrich.kafka.writing.transactions import TransactionalProducer

_log = logging.getLogger(__name__)

Ends = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> offset below which all events are processed."""

_PATIENCE_S = 30.0
_LAST_COMMIT_S, _AGAIN_S = 15.0, 0.5
_REMIND_S = 60.0
_LONGEST_NOTE = 4_000
_COMMIT_EVERY_S = 1.0
_SAY_ALIVE_EVERY_S = 5.0
"""How often a driver without events checks whether another one took over."""
_SAY_USED_EVERY_S = 600.0
"""How often a driver whose slots commit uses its own transactional id: brokers forget one that nobody has used for some
days, and its producer can never write again."""
_REFUSALS = {
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_DOUBT_S = 10.0
"""How long brokers that come back may know of no rights."""


def older_group_of(stage: str) -> str:
    """The group of earlier releases, shared by all pipelines that have a stage of this name."""
    return f"enrich.{stage}"


class _Asked(Exception):
    """Ends a transaction without a commit."""


class StageProgress:
    """The offsets of one stage's group. They are committed in transactions, which only the newest driver can do."""

    def __init__(self, connection: Connection, pipeline: str, stage: str, *, deadline_s: float = 10.0) -> None:
        """`deadline_s`: for each step of a commit. A stage that stops waits for the commit under way."""
        self.group, self.older_group = stage_group(pipeline, stage), older_group_of(stage)
        self._connection = connection
        self._consumer: Consumer = new_group_consumer(connection, self.group)
        self._producer = TransactionalProducer(connection, self.group, deadline_s=deadline_s)
        self._ends: Ends = {}
        self._note = ""
        self.note: str | None = None
        """The text that was committed with the offsets, when they were read last."""
        self._is_new = False
        self._is_refused = False
        """The last commit failed, and another one may not."""
        self._committed_at = 0.0
        self._used_at = time.monotonic()
        self._thread: threading.Thread | None = None
        """The commit under way."""
        self._refused_since: float | None = None
        self._failure: EnrichError | None = None

    def committed(self, topic: str, partitions: list[int]) -> dict[int, int]:
        """The group's offsets of the topic; empty if the stage never ran."""
        offsets, self.note = _committed(self._consumer, self.group, topic, partitions)
        return offsets

    def committed_by(self, group: str, topic: str, partitions: list[int]) -> dict[int, int]:
        """Another group's offsets of the topic."""
        return self._of_another(group, topic, partitions)[0]

    def committed_before(self, topic: str, partitions: list[int]) -> tuple[dict[int, int], str | None]:
        """Offsets and note of the group that earlier releases used, of this pipeline or of another. Nothing if this
        user may not read that group."""
        try:
            return self._of_another(self.older_group, topic, partitions)
        except ConfigError:
            return {}, None

    def _of_another(self, group: str, topic: str, partitions: list[int]) -> tuple[dict[int, int], str | None]:
        with closing(new_group_consumer(self._connection, group)) as consumer:
            return _committed(consumer, group, topic, partitions)

    def remember(self, note: str) -> None:
        """Commits the text with the next offsets, unless it is longer than brokers accept."""
        self._note = note if len(note) <= _LONGEST_NOTE else ""

    def take_over(self) -> None:
        """Fences every other driver of this stage."""
        self._producer.start(_PATIENCE_S)

    def commit_these(self, offsets: Sequence[TopicPartition]) -> None:
        """At once, with notes of their own."""
        with self._transaction():
            self._producer.send_offsets(offsets, self._consumer.consumer_group_metadata())

    def require_newest(self, topic: str) -> None:
        """Raises Fenced if another driver has taken over. Commits nothing. `topic`: any that exists."""
        with suppress(_Asked), self._transaction():
            self._producer.send_offsets([TopicPartition(topic, 0, 0)], self._consumer.consumer_group_metadata())
            raise _Asked

    def say_used(self, topic: str) -> None:
        """Uses the transactional id now and then, where no commits do. Raises Fenced as `require_newest` does."""
        if time.monotonic() - self._used_at >= _SAY_USED_EVERY_S:
            with suppress(Retryable):  # then it is tried again
                self.require_newest(topic)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._producer.transaction():
                yield
        except Retryable as error:
            if code_of(error) != KafkaError.INVALID_PRODUCER_ID_MAPPING:
                raise
            # The client would say so each time. A new one would shut out whoever may have the id now.
            raise Fenced(
                "the brokers have forgotten this driver's transactional id, as nobody has used it for longer than "
                "their transactional.id.expiration.ms; or another driver has it now",
                where=error.where,
                next_step="start the stage again; run one driver of a stage only",
            ) from error
        finally:
            self._used_at = time.monotonic()

    def reached(self, ends: Ends) -> None:
        """Takes the offsets below which all events are processed. Raises Fenced if another driver took over, and
        ConfigError if this user may not commit them any more."""
        if ends != self._ends:
            self._ends, self._is_new = ends, True
        waited = time.monotonic() - self._committed_at
        if self._ends and waited >= (_COMMIT_EVERY_S if self._is_new else _SAY_ALIVE_EVERY_S):
            self._begin()
        self._raise_failure()

    def commit(self) -> None:
        """Commits what was reached, a last time, unless the brokers take too long: the next start relies on the
        checkpoint, but one with another checkpoint on this. Raises as `reached` does."""
        end = time.monotonic() + _LAST_COMMIT_S
        while self._ends and self._waited_for() and self._begin() and self._waited_for() and self._is_refused:
            if time.monotonic() >= end:
                _log.warning("the group's offsets are not committed; ending without it")
                break
            time.sleep(_AGAIN_S)
        self._raise_failure()

    def _begin(self) -> bool:
        """Commits in a thread of its own: while brokers come back, the client's calls have exceeded their deadline by
        minutes, and a stage that hangs in them would notice nothing else."""
        if self._thread is not None and self._thread.is_alive():
            if time.monotonic() - self._committed_at >= _REMIND_S:
                self._committed_at = time.monotonic()
                _log.warning("the brokers have not answered the commit of the group's offsets for a minute")
            return False
        self._committed_at, self._is_new, self._is_refused = time.monotonic(), False, False
        self._thread = threading.Thread(target=self._commit, args=[self._ends], name="progress", daemon=True)
        self._thread.start()
        return True

    def _waited_for(self) -> bool:
        """Waits for the commit under way. False if it takes too long."""
        if self._thread is None:
            return True
        self._thread.join(_LAST_COMMIT_S)
        if self._thread.is_alive():
            _log.warning("the brokers do not answer the commit of the group's offsets; ending without it")
            return False
        return True

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _commit(self, ends: Ends) -> None:
        """Commits once. If that fails, the next commit tries again."""
        offsets = [
            TopicPartition(topic, p, offset, self._note)
            for topic, partitions in ends.items()
            for p, offset in partitions.items()
        ]
        try:
            with self._transaction():
                self._producer.send_offsets(offsets, self._consumer.consumer_group_metadata())
        except Fenced as error:
            if isinstance(error.__cause__, Retryable):  # it says more
                self._failure = error
                return
            self._failure = Fenced(
                "another driver runs this stage", where=error.where, next_step="run one driver of a stage only"
            )
            self._failure.__cause__ = error
        except Retryable as error:
            self._is_new = self._is_refused = True
            _log.warning("the group's offsets are not committed; trying again", extra={"reason": str(error)})
            self._look_at_rights(error)
        except EnrichError as error:
            self._is_new = True
            _log.error("the group's offsets cannot be committed", extra={"reason": str(error)})
            self._look_at_rights(error)
        else:
            self._refused_since = None

    def _look_at_rights(self, error: EnrichError) -> None:
        """The next commits would not do better: the client takes the most common of these answers for fatal."""
        if code_of(error) not in _REFUSALS or error.__cause__ is None:
            self._refused_since = None
            return
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        if now >= self._refused_since + _DOUBT_S:
            self._failure = mapped(error.__cause__.args[0], error.where)
            self._failure.__cause__ = error

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


def _committed(consumer: Consumer, group: str, topic: str, partitions: list[int]) -> tuple[dict[int, int], str | None]:
    """The group's offsets of the topic, and the text that was committed with them."""
    answered = committed(consumer, group, topic, partitions, deadline_s=_PATIENCE_S)
    note = next((str(partition.metadata) for partition in answered if partition.metadata), None)
    return {partition.partition: partition.offset for partition in answered}, note


def ends_of(progress: Mapping[str, object] | None) -> Ends:
    """The ends of the last batch, from Spark's progress of a query."""
    sources = (progress or {}).get("sources") or []
    ends: dict[str, dict[int, int]] = {}
    for source in sources if isinstance(sources, list) else []:
        ends |= offsets_in(source["endOffset"])
    return ends


def offsets_in(reported: str | Mapping[str, Mapping[str, int]] | None) -> Mapping[str, dict[int, int]]:
    """The offsets that Spark reports for a Kafka source, by topic and partition. PySpark has parsed some of them."""
    parsed = json.loads(reported or "null") if isinstance(reported, str) else reported
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in (parsed or {}).items()
    }

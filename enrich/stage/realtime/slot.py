"""A slot at work: it reads its partitions, takes the stage's steps, and writes, each piece in one transaction with the
offsets behind it. So a piece is written once, whatever is killed."""

import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, TopicPartition

from enrich.base.backoff import Backoff
from enrich.base.errors import ConfigError, Fenced, Retryable, WouldLoseData
from enrich.config import from_wire
from enrich.kafka import kafka_errors, librdkafka_settings, new_assigned_consumer
from enrich.kafka.clients.errors import KINDS, code_of, mapped
from enrich.kafka.columnar import Came, incoming, outgoing
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.stage.plan.limits import Limits
from enrich.stage.progress.source_topics import FROM_THE_OLDEST
from enrich.stage.realtime.assignment import Partition, transactional_id
from enrich.stage.realtime.commits import commits_of
from enrich.stage.realtime.counts import Counts
from enrich.stage.realtime.notes import Note
from enrich.stage.realtime.patience import Patience
from enrich.stage.realtime.pieces import Done, Piece, Pieces, columns_of
from enrich.stage.realtime.size import Size
from enrich.stage.steps.leaving.records import WorkerPlan

_log = logging.getLogger(__name__)

REST_S = 0.02
"""After a commit. While its markers are being written, the coordinator tells a transaction that begins to come again,
and each costs the brokers something."""
_WAIT_S = 0.1
_LOOK_EVERY_S = 0.05
"""Whether events need not wait any more."""
_ALL_EVERY_S = 60.0
"""How often the offsets of all partitions are committed, also of those without events: brokers forget what is old."""
_SAY_ALIVE_EVERY_S = 5.0
"""How often a slot without events commits its offsets again: so it learns that it is fenced."""
_LAGS_PERIOD_S = 15.0
"""Of what a slot notes about lags. The driver reads it every second."""
_ROOM = 100_000
"""Bytes of a request beside its record."""
_MOST_BATCH, _BATCH_ROOM = 1_000_000, 200
_DOUBT_S, _DOUBT_AGAIN_S = 10.0, 60.0
_PATIENCE_S = 75.0
"""For a transaction, or a start."""
_DEADLINE_S = 30.0
"""For each call of the brokers."""
_WRITING_S = 25.0
"""Until all records of a transaction are queued. With the call that commits it this is less than the 60 s after which
the brokers would end it, and shut this slot out."""


@dataclass(frozen=True)
class SlotSpec:
    """What a slot needs. It travels in its task and contains secrets."""

    pipeline: str = field(repr=False)
    """As `enrich.config.to_wire` writes it."""
    group: str
    run: str
    number: int
    partitions: Sequence[Partition]
    plan: WorkerPlan
    limits: Limits
    """Of the topics that it writes to."""


def run_slot(spec: SlotSpec) -> Iterator[None]:
    """Yields several times a second. Ends when another run has taken the slot over. Raises what it cannot get over."""
    with closing(Patience(_PATIENCE_S)) as patience:
        yield from _sessions(spec, patience)


class _Doubt:
    """Whether what the brokers say of topics and rights is to be believed: while one comes back it may know nothing of
    either."""

    def __init__(self) -> None:
        self._first = self._last = -math.inf

    def is_over(self) -> bool:
        """To be asked whenever they say it."""
        now = time.monotonic()
        if now > self._last + _DOUBT_AGAIN_S:
            self._first = now
        self._last = now
        return now > self._first + _DOUBT_S


def _sessions(spec: SlotSpec, patience: Patience) -> Iterator[None]:
    pause, doubt, size = Backoff(0.2, 10.0), _Doubt(), Size()
    while True:
        try:
            with closing(_Session(spec, patience, size)) as session:
                with patience:
                    session.begin()
                while True:
                    if session.turn():
                        pause.reset()
                    yield
        except Fenced as error:
            # It must not fail: Spark would begin it again, and that would fence its successor.
            _log.warning("a slot ends", extra={"slot": spec.number, "reason": str(error)})
            return
        except (Retryable, ConfigError) as error:
            refusal = _refusal_in(error)
            if refusal is not None and doubt.is_over():
                raise refusal from error
            wait_s = pause.next_s()
            _log.warning("a slot begins again", extra={"slot": spec.number, "reason": str(error), "in_s": wait_s})
            end = time.monotonic() + wait_s
            while time.monotonic() < end:
                yield
                time.sleep(min(0.2, max(0.0, end - time.monotonic())))


def _refusal_in(error: Retryable | ConfigError) -> ConfigError | None:
    """What brokers say of topics and rights, also if a transaction has failed for it."""
    if isinstance(error, ConfigError):
        return error
    is_one = KINDS.get(code_of(error) or 0) is ConfigError
    return ConfigError(error.what, where=error.where, next_step=error.next_step) if is_one else None


class _Session:
    """A consumer and a producer, from their start to the first error."""

    def __init__(self, spec: SlotSpec, patience: Patience, size: Size) -> None:
        self._spec = spec
        self._patience = patience
        self._size = size
        self._connection = librdkafka_settings(from_wire(spec.pipeline).kafka)
        self._id = transactional_id(spec.group, spec.number)
        # A fetch is answered as soon as there is something; this is how often one without events is sent.
        idle = {"fetch.wait.max.ms": 500, "enable.partition.eof": True}
        self._consumer = new_assigned_consumer(self._connection, spec.group, **idle)
        # With librdkafka's own pause of 100 ms an event in ten came 150 ms later.
        own = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 500, "message.max.bytes": spec.limits.most + _ROOM}
        # The client packs records without regard to what a topic takes, and the brokers refuse a batch whole.
        batch = min(int(str(self._connection.get("batch.size", _MOST_BATCH))), spec.limits.least - _BATCH_ROOM)
        connection = {**own, **self._connection, "batch.size": max(1, batch)}
        self._producer = TransactionalProducer(connection, self._id, deadline_s=_DEADLINE_S)
        self._incoming = incoming(self._consumer)
        self._outgoing = outgoing(self._producer.client)
        self._counts = Counts()
        self._ends: dict[Partition, int] = {}
        self._reached: dict[Partition, int] = {}
        """Ends of partitions: all before them has come. Behind the last record there may be the marker of a
        transaction, or what was aborted."""
        self._waiting: dict[Partition, Pieces] = {}
        """Of these nothing more is read."""
        self._looked_at = self._committed_at = self._all_at = self._lags_at = 0.0
        self._group: Any = None

    def begin(self) -> None:
        """From where the last commit ended. Raises Fenced if that is of another run."""
        self._producer.start(_DEADLINE_S)
        spec = self._spec
        commits = commits_of(self._consumer, spec.group, spec.partitions, _DEADLINE_S)
        for each in spec.partitions:
            note = commits[each].note if each in commits else None
            if note is None or (note.run, note.slot) != (spec.run, spec.number):
                raise Fenced("another driver has taken the partition over", where="/".join(map(str, each)))
            if note.counts is not None:
                self._counts = note.counts
        self._ends = {each: commit.offset for each, commit in commits.items()}
        self._group = self._consumer.consumer_group_metadata()
        with kafka_errors():
            self._incoming.begin([TopicPartition(*each, offset) for each, offset in self._ends.items()])
        self._committed_at = time.monotonic()

    def turn(self) -> bool:
        """What has come, if something has."""
        rest_s = self._committed_at + REST_S - time.monotonic()
        if rest_s > 0:
            time.sleep(rest_s)
        came, now = self._take(), time.monotonic()
        queues: dict[Partition, Pieces] = {}
        if self._waiting and now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            queues |= self._waiting
        if came is not None and len(came):
            queues |= self._queued(came)
        self._write(queues)
        if now - self._committed_at >= _SAY_ALIVE_EVERY_S:
            self._commit([])
        if came is not None:
            self._reached |= came.reached  # with the next commit: now all before it is committed, or waits
        return came is not None and len(came) > 0

    def close(self) -> None:
        # In this order: a queue is the consumer's, and topics are the producer's.
        self._incoming.close()
        self._outgoing.close()
        self._consumer.close()
        self._producer.close()

    def _take(self) -> Came | None:
        try:
            return self._incoming.take(self._size.most, _LOOK_EVERY_S if self._waiting else _WAIT_S)
        except KafkaException as exception:
            raise _reading_failed(exception) from exception

    def _queued(self, came: Came) -> Mapping[Partition, Pieces]:
        """What can be worked on at once. What comes behind events that wait, in their partition, waits too."""
        plan, queues = self._spec.plan, {}
        for one in came.by_partition() if plan.may_wait else [came]:
            piece = Piece(one, plan.operator.taking(columns_of(one)))
            partition = one.topics[one.topic[0]], int(one.partition[0])
            if partition in self._waiting:
                self._waiting[partition].append(piece)
            else:
                queues[partition] = deque([piece])
        return queues

    def _write(self, queues: Mapping[Partition, Pieces]) -> None:
        """What need not wait. Parts of a piece are written one by one, for the sake of memory."""
        done: list[Done] = []
        for partition, pieces in queues.items():
            while pieces and self._is_worked(pieces, done):
                if done[-1].is_part or sum(len(one.came) for one in done) >= self._size.most:
                    self._commit(done)
                    done = []
            self._hold(partition, pieces)
        if done:
            self._commit(done)

    def _is_worked(self, pieces: Pieces, done: list[Done]) -> bool:
        """The first one: False if it has to wait. In halves, if what comes of it is more than a column of Arrow holds,
        or than there is memory for: an event may become a thousand records."""
        while True:
            try:
                one = pieces[0].done(self._spec.plan.leaving)
            except (pa.ArrowException, MemoryError):
                if len(pieces[0].came) == 1:
                    raise
                pieces.extendleft(reversed(pieces.popleft().halves()))
                continue
            if one is not None:
                done.append(one)
                pieces.popleft()
            return one is not None

    def _hold(self, partition: Partition, pieces: Pieces) -> None:
        """Reads a partition only while nothing of it waits."""
        if bool(pieces) == (partition in self._waiting):
            return
        with kafka_errors():
            if pieces:
                self._waiting[partition] = pieces
                self._consumer.pause([TopicPartition(*partition)])
            else:
                del self._waiting[partition]
                self._consumer.resume([TopicPartition(*partition)])

    def _commit(self, done: Sequence[Done]) -> None:
        ends: dict[Partition, int] = {}
        if time.monotonic() - self._lags_at >= _LAGS_PERIOD_S:
            self._lags_at = time.monotonic()
            self._counts.lags = self._counts.lags.next_period()
        for one in done:
            self._counts.add(one.columns)
            ends |= one.came.ends()
        for partition in [each for each in self._reached if each not in self._waiting]:
            end = self._reached.pop(partition)
            if end > ends.get(partition, self._ends[partition]):
                ends[partition] = end
        events, latest = sum(len(one.came) for one in done), time.monotonic() + _WRITING_S
        with self._patience, self._size.of(events), self._producer.transaction():
            with self._producer.errors_of(f"transactional.id {self._id}"):
                for records in (each for one in done for each in one.records):
                    self._outgoing.write(records, latest - time.monotonic())
            self._send(ends)
        self._ends |= ends
        self._committed_at = time.monotonic()

    def _send(self, ends: Mapping[Partition, int]) -> None:
        # The first partition has the counts, whether it has events or not.
        first = self._spec.partitions[0]
        is_due = time.monotonic() - self._all_at >= _ALL_EVERY_S
        offsets = []
        for each in self._ends if is_due else {first: None, **dict.fromkeys(ends)}:
            counts = self._counts if each == first else None
            note = Note(self._spec.run, self._spec.number, counts)
            offsets.append(TopicPartition(*each, ends.get(each, self._ends[each]), note.to_text()))
        self._producer.send_offsets(offsets, self._group)
        if is_due:
            self._all_at = time.monotonic()


def _reading_failed(exception: KafkaException) -> Exception:
    error = exception.args[0]
    if error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
        return WouldLoseData(
            "events that were not read yet are gone: the brokers have deleted them",
            where=error.str(),
            next_step=f"give the topic a longer retention; {FROM_THE_OLDEST}",
        )
    return mapped(error)

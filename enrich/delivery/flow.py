"""A consumer group that reads a topic, writes the records to a sink, then commits: in this order, so nothing is lost.

At most one batch per partition is read and not yet written: a partition whose batch the store does not take is paused
until it does, while the others go on.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from enrich.base.errors import EnrichError, Retryable, Unreachable
from enrich.delivery.gaps import Bounds, Gap, gap_of
from enrich.delivery.positions import ANOTHER_STORE, COMMITTED, Committed, Marks, Partition, start_of
from enrich.kafka import kafka_errors
from enrich.kafka.clients.errors import mapped

_log = logging.getLogger("enrich.sync")

# Nothing is read during a commit: committing each second shows in the 95th percentile of the latency.
_COMMIT_S = 2.0
# A row waits half of this on average when there is little to read; polling this often costs a thousandth of a core.
_POLL_S = 0.01
_POLL_RETRIES_S = 0.1
_MOST_RECORDS = 5_000
_FIRST_RECORDS = 100
# If a poll returns so many at once, there is a backlog: do not wait for more.
_ENOUGH = 500
# Of records in one batch. Until they are written they take about five times as much: as rows, in the store's form and
# in the driver's.
_MOST_BYTES = 2 * 2**20
# Of records of all partitions that wait for the store. Above it nothing is read.
_MOST_PENDING_BYTES = 4 * _MOST_BYTES
_DEADLINE_S = 10.0
# A batch that takes longer is followed by a smaller one.
_SLOW_S = 5.0
_KEEP_ALIVE_S = 1.0
# How often the end offsets for the lag are refreshed.
_ENDS_S = 0.5
# While no broker answers: how often one is asked, and how long to wait for its answer.
_LOOK_EVERY_S = 1.0
_LOOK_S = 0.5
# The topic existed when the route began: it is being recreated, or the brokers do not know it for a moment.
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
# The offset does not exist any more: retention or compaction removed it, or the brokers lost it.
_LOST_OFFSET = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
# How often an idle partition is committed again.
_ALIVE_MS = 600_000


class Sink(Protocol):
    """Writes records to the store."""

    def take(self, messages: Sequence[Message], keep_alive: Callable[[], object]) -> None:
        """When it returns, all records are in the store or sent on elsewhere. If it raises Retryable, all come again.

        Calls `keep_alive` now and then if it takes long.
        """

    def remark(self, gap: Gap) -> None:
        """Records the gap for people to decide on. Raises WouldLoseData if the flow must not go on before they have."""

    def settle(self) -> str:
        """Makes sure that what was taken may be committed, and returns the store's incarnation. Raises if not."""


@dataclass(frozen=True)
class FlowPlan:
    """What a flow reads, and from where."""

    topic: str
    generation: int
    starts: Mapping[int, int]
    rewind_ms: int
    born: str = ""
    """The store's `born`; see `Generation`."""
    tombstones_kept_ms: int | None = None
    """For how long the topic keeps tombstones."""
    is_watched: bool = True
    """Whether gaps are reported. Not for retry topics, which are not tables."""
    wait_ms: int = 0
    """For retry topics: how old a record must be before it is written."""
    most_records: int = _MOST_RECORDS
    """Most records in one batch."""


class Flow:
    """For one `run`. All of it, including the client's callbacks, happens in the caller's thread."""

    def __init__(
        self,
        consumer: Consumer,
        plan: FlowPlan,
        sink: Sink,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 10**6,
    ) -> None:
        self._consumer = consumer
        self._plan = plan
        self._sink = sink
        self._clock_ms = clock_ms
        self._partitions: dict[int, Partition] = {}
        self._incarnation = ""
        self._most = min(_FIRST_RECORDS, plan.most_records)
        self._slow = False
        """The last batch took so long that the next one should be smaller."""
        self._polled_meanwhile: list[Message] = []
        self._polled_while_writing = False
        self._next_keep_alive = 0.0
        self._next_commit = 0.0
        self._full = False
        self._patient_until = time.monotonic() + _DEADLINE_S
        self._fault: EnrichError | None = None
        self.trouble: Retryable | None = None
        """Why a partition waits, or why nothing can be committed."""
        self._unsettled = False
        """The last commit failed."""
        self.trouble_ms: int | None = None
        self.progressed_ms: int | None = None
        """When it had last written all that it had read."""
        self.rewinds = 0
        self.away: Unreachable | None = None
        """Set while no broker answers."""
        self._next_look = 0.0
        self._next_ends = 0.0

    def client_error(self, error: KafkaError) -> None:
        """Called by the client for an error that concerns no single record."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.away = Unreachable(
                "no broker answers", where=f"topic {self._plan.topic}", next_step="the route continues when one does"
            )

    def run(self, stopping: threading.Event) -> None:
        """Returns after `stopping` is set and what was written is committed. Raises what the service must handle."""
        self._incarnation = self._sink.settle()
        with kafka_errors(f"topic {self._plan.topic}"):
            self._consumer.subscribe(
                [self._plan.topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
            )
        while not stopping.is_set():
            polled, self._polled_meanwhile = self._polled_meanwhile, []
            self._take(polled)
            self._take(self._poll())
            self._write()
            if self.trouble is None and self.away is None:
                self.progressed_ms = self._clock_ms()
            if self.away is not None and time.monotonic() >= self._next_look:
                self._look_for_brokers()
            if time.monotonic() >= self._next_ends:
                self._look_at_ends()
            if time.monotonic() >= self._next_commit:
                self._commit_if_settled()
        self._commit_if_settled()

    def lag(self) -> int | None:
        """How many records of the assigned partitions are not yet written; None before the ends are known.

        Thread-safe: it does not touch the consumer, which belongs to the flow's thread.
        """
        total = 0
        for partition in list(self._partitions.values()):
            if partition.end is None:
                return None
            total += max(0, partition.end - partition.position)
        return total

    @property
    def assigned(self) -> list[int]:
        return sorted(self._partitions)

    @property
    def waiting(self) -> list[int]:
        """The partitions whose records the store did not take."""
        return sorted(p.number for p in list(self._partitions.values()) if p.pending and p.backoff.tries)

    def _poll(self) -> list[Message]:
        with kafka_errors(f"topic {self._plan.topic}"):
            messages = self._consumer.consume(self._most, 0)
            if len(messages) < min(_ENOUGH, self._most):
                wait_s = _POLL_RETRIES_S if self._plan.wait_ms else _POLL_S
                messages += self._consumer.consume(self._most - len(messages), wait_s)
        # Only a batch that itself takes long needs more polls: each one pauses the fetches, which costs half a second.
        self._next_keep_alive = time.monotonic() + _KEEP_ALIVE_S
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() in _GONE and not self._partitions and time.monotonic() < self._patient_until:
                continue  # a topic that was just created is not known to every broker at once
            elif error.code() == KafkaError._PARTITION_EOF:
                if (ended := self._partitions.get(message.partition())) is not None:  # type: ignore[arg-type] # it has one
                    ended.eof = message.offset() or 0
            elif error.code() in _LOST_OFFSET:
                self._handle_lost_offset(message)
            elif error.code() in _GONE:
                raise Retryable(f"Kafka: {error.str()}", where=f"topic {self._plan.topic}")
            elif not error.retriable():
                raise mapped(error, f"topic {message.topic()}, partition {message.partition()}")
        if records:
            some = records[::16]
            average = sum(map(len, some)) // len(some) + 1
            wanted = self._most // 2 if self._slow else 2 * self._most
            self._most = max(1, min(self._plan.most_records, wanted, _MOST_BYTES // average))
        return records

    def _handle_lost_offset(self, message: Message) -> None:
        partition = self._partitions.get(message.partition())  # type: ignore[arg-type] # the event names one
        if partition is None:
            return
        bounds = self._bounds(partition.number)
        if bounds is None:
            raise Retryable("a partition cannot be read on", where=f"topic {self._plan.topic}")
        gap = gap_of(partition.number, partition.position, bounds, None, 0, None)
        self._sink.remark(gap if gap.doubt or gap.cut else Gap(cut=f"partition {partition.number} was cut off"))
        partition.pending.clear()
        partition.position, partition.epoch = max(partition.position, bounds.low), -1
        with kafka_errors():
            self._consumer.seek(TopicPartition(self._plan.topic, partition.number, partition.position))

    def _bounds(self, partition: int, deadline_s: float = _LOOK_S) -> Bounds | None:
        """None if the brokers do not answer now."""
        with suppress(KafkaException):
            topic_partition = TopicPartition(self._plan.topic, partition)
            return Bounds(*self._consumer.get_watermark_offsets(topic_partition, timeout=deadline_s, cached=False))
        return None

    def _look_for_brokers(self) -> None:
        """The client does not report that brokers are back until there is something to read, so one is asked."""
        with suppress(KafkaException):
            self._consumer.get_watermark_offsets(TopicPartition(self._plan.topic, 0), timeout=_LOOK_S, cached=False)
            self.away = None
        self._next_look = time.monotonic() + _LOOK_EVERY_S

    def _look_at_ends(self) -> None:
        """Reads the end offsets from the client's cache: no broker is asked."""
        self._next_ends = time.monotonic() + _ENDS_S
        for partition in self._partitions.values():
            with suppress(KafkaException):
                topic_partition = TopicPartition(self._plan.topic, partition.number)
                known = self._consumer.get_watermark_offsets(topic_partition, cached=True)
                if known is not None and known[1] >= 0:
                    partition.end = known[1]

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            partition = self._partitions.get(message.partition())  # type: ignore[arg-type] # a record has one
            if partition is not None:  # else it was revoked by the poll that returned the record
                partition.pending.append(message)

    def _write(self) -> None:
        now = time.monotonic()
        due = [partition for partition in self._partitions.values() if partition.pending and partition.due <= now]
        if self._plan.wait_ms:
            due = [partition for partition in due if self._is_old_enough(partition)]
        fresh = [partition for partition in due if not partition.backoff.tries]
        for group in ([fresh] if fresh else []) + [[partition] for partition in due if partition.backoff.tries]:
            began = time.monotonic()
            try:
                self._sink.take([message for partition in group for message in partition.pending], self._keep_alive)
            except Retryable as error:
                self._note_trouble(error)
                for partition in group:
                    self._hold(partition, partition.backoff.next_s())
            else:
                self._slow = time.monotonic() - began > _SLOW_S
                for partition in group:
                    partition.written()
                    self._release(partition)
        if self._polled_while_writing:
            self._polled_while_writing = False
            for partition in self._partitions.values():
                if not partition.pending:
                    self._release(partition)
        self._throttle()
        if self.trouble is not None and not self.waiting and not self._unsettled:
            self.trouble = None

    def _keep_alive(self) -> None:
        """Polls while a batch takes long: a member that does not poll for too long is dropped from its group."""
        now = time.monotonic()
        if now < self._next_keep_alive:
            return
        self._next_keep_alive, self._polled_while_writing = now + _KEEP_ALIVE_S, True
        for partition in self._partitions.values():
            self._hold(partition, max(0.0, partition.due - now))
        # Records that come nevertheless are kept apart: `written` takes all pending records of a partition as written.
        with kafka_errors(f"topic {self._plan.topic}"):
            self._polled_meanwhile += [message for message in self._consumer.consume(1, 0) if message.error() is None]

    def _throttle(self) -> None:
        """Reads nothing while too much waits for the store: this bounds memory however many partitions there are."""
        waiting = [partition for partition in self._partitions.values() if partition.pending]
        if not waiting and not self._full:
            return
        self._full = sum(len(m) for partition in waiting for m in partition.pending) > _MOST_PENDING_BYTES
        for partition in self._partitions.values():
            if not partition.pending:
                self._hold(partition, 0.0) if self._full else self._release(partition)

    def _is_old_enough(self, partition: Partition) -> bool:
        """Records of a retry topic are in the order of their times, so the newest pending one decides."""
        rest_ms = partition.pending[-1].timestamp()[1] + self._plan.wait_ms - self._clock_ms()
        if rest_ms > 0:
            self._hold(partition, min(rest_ms / 1000, 1.0))
        return rest_ms <= 0

    def _hold(self, partition: Partition, seconds: float) -> None:
        partition.due = time.monotonic() + seconds
        if not partition.paused:
            with kafka_errors():
                self._consumer.pause([TopicPartition(self._plan.topic, partition.number)])
            partition.paused = True

    def _release(self, partition: Partition) -> None:
        if partition.paused:
            with kafka_errors():
                self._consumer.resume([TopicPartition(self._plan.topic, partition.number)])
            partition.paused = False

    def _commit_if_settled(self) -> None:
        self._next_commit = time.monotonic() + _COMMIT_S
        try:
            if not self._commit(self._partitions.values()):
                self._rewind()
            self._unsettled = False
        except Retryable as error:  # the same is committed the next time, or read again: both are right
            self._note_trouble(error)
            self._unsettled = True

    def _commit(self, partitions: Iterable[Partition]) -> bool:
        """False if the store was restarted or replaced: writes that it acknowledged before may be lost."""
        incarnation = self._sink.settle()
        if incarnation != self._incarnation:
            return False
        now_ms, offsets, done = self._clock_ms(), [], []
        for partition in partitions:
            if partition.committed != partition.position or self._is_silent(partition, now_ms):
                partition.marks.add(now_ms, partition.position)
                note = self._committed(incarnation, partition.marks.all()).to_text()
                fields = (self._plan.topic, partition.number, partition.position, note, partition.epoch)
                offsets.append(TopicPartition(*fields))
                done.append(partition)
        if offsets:
            with kafka_errors(f"topic {self._plan.topic}"):
                self._consumer.commit(offsets=offsets, asynchronous=False)
            for partition in done:
                self._look_back(partition, now_ms)
                partition.committed, partition.alive_ms = partition.position, now_ms
        return True

    def _is_silent(self, partition: Partition, now_ms: int) -> bool:
        """Whether a partition that is read to its end was not committed for a while."""
        is_done = partition.end is not None and max(partition.position, partition.eof) >= partition.end
        is_done = is_done and not partition.pending
        every_ms = min(_ALIVE_MS, (self._plan.tombstones_kept_ms or _ALIVE_MS) // 4)
        due_ms = (partition.alive_ms or 0) + every_ms
        return self._plan.is_watched and is_done and self.away is None and now_ms >= due_ms

    def _look_back(self, partition: Partition, now_ms: int) -> None:
        """Remarks a gap if nothing was committed for so long before this commit that tombstones may be gone."""
        if self._plan.is_watched and partition.committed is not None:
            bounds = Bounds(0, partition.position)
            gap = gap_of(
                partition.number, partition.committed, bounds, partition.alive_ms, now_ms, self._plan.tombstones_kept_ms
            )
            if gap.doubt is not None:
                self._sink.remark(gap)

    def _rewind(self) -> None:
        """Goes back after the store was restarted or replaced: it may have lost writes that it had acknowledged."""
        self._incarnation = incarnation = self._sink.settle()
        self.rewinds += 1
        for partition in self._partitions.values():
            known = self._committed(incarnation, partition.marks.all())
            rewound = known.rewound(self._clock_ms(), self._plan.rewind_ms)
            start = max(partition.position if rewound is None else rewound, self._plan.starts.get(partition.number, 0))
            _log.warning(
                "the store was restarted or replaced: going back",
                extra={
                    "topic": self._plan.topic,
                    "partition": partition.number,
                    "from": partition.position,
                    "to": start,
                },
            )
            partition.pending.clear()
            partition.position, partition.committed, partition.epoch = start, None, -1
            partition.marks.forget_after(start)
            with kafka_errors():
                self._consumer.seek(TopicPartition(self._plan.topic, partition.number, start))
            self._release(partition)

    def _assign(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        try:
            with kafka_errors(f"topic {self._plan.topic}"):
                committed = consumer.committed(assigned, timeout=_DEADLINE_S)
            begun = [self._begin(one) for one in committed]
            # A flow that starts notices here that the store was replaced; it has written nothing yet.
            self.rewinds += any(why == ANOTHER_STORE for _, why in begun)
            starts = [start for start, _ in begun]
            with kafka_errors():
                consumer.incremental_assign(starts)
            self._check_epochs(consumer, starts)
            if begun:  # the configuration is right: if the topic disappears later, only this route is held
                self.progressed_ms = self.progressed_ms or self._clock_ms()
        except EnrichError as error:  # raised inside the client's callback, it would lose its type
            self._fault = error

    def _check_epochs(self, consumer: Consumer, starts: Sequence[TopicPartition]) -> None:
        """Lets the brokers check that the record before each offset still has the leader epoch that it was read with: a
        partition may have lost its tail and grown past the offset. In a group the client only checks this on a seek."""
        for start in starts:
            if start.leader_epoch is not None and start.leader_epoch >= 0:
                try:
                    consumer.seek(start)
                except KafkaException as error:
                    where = f"topic {start.topic}, partition {start.partition}"
                    what = f"Kafka: the start offset cannot be checked: {error.args[0]}"
                    raise Retryable(what, where=where) from error

    def _begin(self, committed: TopicPartition) -> tuple[TopicPartition, str]:
        current = self._committed(self._incarnation, ())
        start, why = start_of(committed, dict(self._plan.starts), current, self._clock_ms(), self._plan.rewind_ms)
        known = Committed.from_text(committed.metadata)
        marks = Marks(
            self._plan.rewind_ms, known.marks if known is not None and known.generation == current.generation else ()
        )
        marks.forget_after(start)
        marks.add(self._clock_ms(), start)
        at = committed.offset if committed.offset >= 0 else None
        partition = Partition(committed.partition, start, marks, at)
        if self._plan.is_watched:
            self._look_since(committed, known, partition, why)
        start = partition.position
        self._partitions[committed.partition] = partition
        extra = {"topic": self._plan.topic, "partition": committed.partition, "offset": start, "because": why}
        _log.info("a partition was assigned", extra=extra)
        return TopicPartition(self._plan.topic, committed.partition, start, leader_epoch=partition.epoch), why

    def _look_since(self, start: TopicPartition, known: Committed | None, partition: Partition, why: str) -> None:
        """Remarks what happened to the partition since its last commit."""
        if why == COMMITTED and partition.position == start.offset and start.leader_epoch is not None:
            partition.epoch = start.leader_epoch
        bounds = self._bounds(start.partition, _DEADLINE_S)
        if bounds is None:
            return
        if why in (COMMITTED, ANOTHER_STORE):
            partition.alive_ms = None if known is None else known.at_ms
            gap = gap_of(
                start.partition,
                start.offset,
                bounds,
                partition.alive_ms,
                self._clock_ms(),
                self._plan.tombstones_kept_ms,
            )
            if gap.doubt or gap.cut:
                self._sink.remark(gap)
            partition.alive_ms = self._clock_ms()
        if bounds.low > partition.position:
            partition.position, partition.epoch = bounds.low, -1

    def _committed(self, incarnation: str, marks: tuple[tuple[int, int], ...]) -> Committed:
        return Committed(self._plan.generation, incarnation, marks, self._plan.born, self._clock_ms())

    def _revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        leaving = [self._partitions[one.partition] for one in revoked if one.partition in self._partitions]
        try:
            self._commit(leaving)
        except EnrichError as error:  # the next owner reads again what is not committed
            _log.info("not committed at the end of an assignment: %s", error)
        self._lose(consumer, revoked)

    def _lose(self, consumer: Consumer, lost: list[TopicPartition]) -> None:  # noqa: ARG002 - a callback's signature
        for one in lost:
            self._partitions.pop(one.partition, None)
        gone = {one.partition for one in lost}
        self._polled_meanwhile = [each for each in self._polled_meanwhile if each.partition() not in gone]

    def _note_trouble(self, error: Retryable) -> None:
        if self.trouble is None:
            _log.warning("waiting: %s", error, extra={"topic": self._plan.topic})
        self.trouble, self.trouble_ms = error, self._clock_ms()

"""A consumer group that reads a topic, has the records written, and commits: in this order, so nothing is lost.

What is read and not yet written is at most one batch a partition: a partition whose batch the store does not take is
paused until it does, while the others go on.
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

# Nothing is read meanwhile: committing each second shows in the 95th percentile of the latency.
_COMMIT_S = 2.0
# Half of it is what a row waits at least; a thousandth of a core is what it costs.
_POLL_S = 0.01
_POLL_RETRIES_S = 0.1
_MOST_RECORDS = 5_000
_FIRST_RECORDS = 100
# With so many at hand, which is when there is a backlog, the next ones are not waited for.
_ENOUGH = 500
# Of records read at once. On their way to a store they are there some five times, in its spelling and in the driver's.
_MOST_BYTES = 2 * 2**20
# What all partitions may hold together while they wait for the store; then none is read.
_MOST_PENDING_BYTES = 4 * _MOST_BYTES
_DEADLINE_S = 10.0
# A batch that takes longer is followed by a smaller one.
_SLOW_S = 5.0
_BREATH_S = 1.0
# How old the ends are that the lag is told by.
_ENDS_S = 0.5
# While no broker answers, one is asked so often, and so long.
_LOOK_EVERY_S = 1.0
_LOOK_S = 0.5
# The topic was there when the route began: it is being made again, or the brokers have just forgotten it.
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
# The offset is none any more: the topic forgot it, or the brokers lost it.
_LOST_PLACE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
# A partition without news is committed again so often.
_ALIVE_MS = 600_000


class Sink(Protocol):
    """Takes records to the store."""

    def take(self, messages: Sequence[Message], breathe: Callable[[], object]) -> None:
        """All are in the store or on their way elsewhere when it returns. Raises Retryable: then all come again.

        Calls `breathe` now and then while it takes long.
        """

    def remark(self, gap: Gap) -> None:
        """Keeps it for the people who decide. Raises WouldLoseData when nothing can go on before they did."""

    def settle(self) -> str:
        """Makes sure that what was taken may be committed, and returns the store's incarnation. Raises when not."""


@dataclass(frozen=True)
class FlowPlan:
    """What a flow reads and from where."""

    topic: str
    generation: int
    starts: Mapping[int, int]
    rewind_ms: int
    born: str = ""
    """The store's; see `Generation`."""
    forgets_ms: int | None = None
    """For how long the topic keeps marks of deletions."""
    is_watched: bool = True
    """What a partition missed or lost is told; not so for retry topics, which are no tables."""
    wait_ms: int = 0
    """Records are taken once they are so old: for retry topics."""
    most_records: int = _MOST_RECORDS
    """In one batch."""


class Flow:
    """Lives for one `run`. All of it, the client's callbacks too, happens in the caller's thread."""

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
        """The last batch took so long that the next one is to be smaller."""
        self._heard_meanwhile: list[Message] = []
        self._breathed = False
        self._next_breath = 0.0
        self._next_commit = 0.0
        self._full = False
        self._patient_until = time.monotonic() + _DEADLINE_S
        self._fault: EnrichError | None = None
        self.trouble: Retryable | None = None
        """Why some partition waits."""
        self.trouble_ms: int | None = None
        self.progressed_ms: int | None = None
        """When it last wrote all that it had read."""
        self.rewinds = 0
        self.away: Unreachable | None = None
        """Set while no broker answers."""
        self._next_look = 0.0
        self._next_ends = 0.0

    def heard(self, error: KafkaError) -> None:
        """The client's word of an error that is of no record."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.away = Unreachable(
                "no broker answers", where=f"topic {self._plan.topic}", next_step="it goes on when one does"
            )

    def run(self, stopping: threading.Event) -> None:
        """Returns after `stopping` is set, with all that was written committed. Raises what the service must know."""
        self._incarnation = self._sink.settle()
        with kafka_errors(f"topic {self._plan.topic}"):
            self._consumer.subscribe(
                [self._plan.topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
            )
        while not stopping.is_set():
            heard, self._heard_meanwhile = self._heard_meanwhile, []
            self._take(heard)
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
        """Records of the assigned partitions that are not yet written; None before anything is known.

        For any thread: it does not touch the consumer, which the flow's thread has.
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
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() in _GONE and not self._partitions and time.monotonic() < self._patient_until:
                continue  # a topic that was just made is not known to every broker at once
            elif error.code() == KafkaError._PARTITION_EOF:
                if (ended := self._partitions.get(message.partition())) is not None:  # type: ignore[arg-type] # it has one
                    ended.eof = message.offset() or 0
            elif error.code() in _LOST_PLACE:
                self._lost_place(message)
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

    def _lost_place(self, message: Message) -> None:
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
        """None when the brokers do not say it now."""
        with suppress(KafkaException):
            place = TopicPartition(self._plan.topic, partition)
            return Bounds(*self._consumer.get_watermark_offsets(place, timeout=deadline_s, cached=False))
        return None

    def _look_for_brokers(self) -> None:
        """Nothing tells that they are back, unless there is something to read."""
        with suppress(KafkaException):
            self._consumer.get_watermark_offsets(TopicPartition(self._plan.topic, 0), timeout=_LOOK_S, cached=False)
            self.away = None
        self._next_look = time.monotonic() + _LOOK_EVERY_S

    def _look_at_ends(self) -> None:
        """What the client has heard of them: no broker is asked."""
        self._next_ends = time.monotonic() + _ENDS_S
        for partition in self._partitions.values():
            with suppress(KafkaException):
                place = TopicPartition(self._plan.topic, partition.number)
                known = self._consumer.get_watermark_offsets(place, cached=True)
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
                self._sink.take([message for partition in group for message in partition.pending], self._breathe)
            except Retryable as error:
                self._told(error)
                for partition in group:
                    self._hold(partition, partition.backoff.next_s())
            else:
                self._slow = time.monotonic() - began > _SLOW_S
                for partition in group:
                    partition.written()
                    self._release(partition)
        if self._breathed:
            self._breathed = False
            for partition in self._partitions.values():
                if not partition.pending:
                    self._release(partition)
        self._throttle()
        if self.trouble is not None and not self.waiting:
            self.trouble = None

    def _breathe(self) -> None:
        """While a batch takes long: a member of a group that does not ask for records is taken for dead."""
        now = time.monotonic()
        if now < self._next_breath:
            return
        self._next_breath, self._breathed = now + _BREATH_S, True
        for partition in self._partitions.values():
            self._hold(partition, max(0.0, partition.due - now))
        # What comes nevertheless stays apart: a partition is written once its last pending record is.
        with kafka_errors(f"topic {self._plan.topic}"):
            self._heard_meanwhile += [message for message in self._consumer.consume(1, 0) if message.error() is None]

    def _throttle(self) -> None:
        """While too much waits for the store, nothing is read: memory is bounded however many partitions there are."""
        waiting = [partition for partition in self._partitions.values() if partition.pending]
        if not waiting and not self._full:
            return
        self._full = sum(len(m) for partition in waiting for m in partition.pending) > _MOST_PENDING_BYTES
        for partition in self._partitions.values():
            if not partition.pending:
                self._hold(partition, 0.0) if self._full else self._release(partition)

    def _is_old_enough(self, partition: Partition) -> bool:
        """Records of a retry topic stand in the order of their times, so the newest pending one decides."""
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
        except Retryable as error:  # the same is committed the next time, or read again: both are right
            self._told(error)
            _log.debug("not committed: %s", error)

    def _commit(self, partitions: Iterable[Partition]) -> bool:
        """False when the store is another now: what it acknowledged before does not count."""
        incarnation = self._sink.settle()
        if incarnation != self._incarnation:
            return False
        now_ms, offsets, done = self._clock_ms(), [], []
        for partition in partitions:
            if partition.committed != partition.position or self._is_silent(partition, now_ms):
                partition.marks.add(now_ms, partition.position)
                note = self._committed(incarnation, partition.marks.all()).to_text()
                place = (self._plan.topic, partition.number, partition.position, note, partition.epoch)
                offsets.append(TopicPartition(*place))
                done.append(partition)
        if offsets:
            with kafka_errors(f"topic {self._plan.topic}"):
                self._consumer.commit(offsets=offsets, asynchronous=False)
            for partition in done:
                self._look_back(partition, now_ms)
                partition.committed, partition.alive_ms = partition.position, now_ms
        return True

    def _is_silent(self, partition: Partition, now_ms: int) -> bool:
        """Nothing came for a while, and there was nothing to read."""
        is_done = partition.end is not None and max(partition.position, partition.eof) >= partition.end
        is_done = is_done and not partition.pending
        every_ms = min(_ALIVE_MS, (self._plan.forgets_ms or _ALIVE_MS) // 4)
        due_ms = (partition.alive_ms or 0) + every_ms
        return self._plan.is_watched and is_done and self.away is None and now_ms >= due_ms

    def _look_back(self, partition: Partition, now_ms: int) -> None:
        """Before this commit the store may have been away for so long that marks of deletions are gone."""
        if self._plan.is_watched and partition.committed is not None:
            bounds = Bounds(0, partition.position)
            gap = gap_of(
                partition.number, partition.committed, bounds, partition.alive_ms, now_ms, self._plan.forgets_ms
            )
            if gap.doubt is not None:
                self._sink.remark(gap)

    def _rewind(self) -> None:
        """The store is another: the last writes may be gone, though it had acknowledged them."""
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
            begun = [self._begin(place) for place in committed]
            # Whoever begins anew notices another store here, and has written nothing yet.
            self.rewinds += any(why == ANOTHER_STORE for _, why in begun)
            starts = [start for start, _ in begun]
            with kafka_errors():
                consumer.incremental_assign(starts)
            self._check_places(consumer, starts)
            if begun:  # what is configured was right: were the topic gone for a while, the others go on
                self.progressed_ms = self.progressed_ms or self._clock_ms()
        except EnrichError as error:  # raised inside the client it would lose its kind
            self._fault = error

    def _check_places(self, consumer: Consumer, starts: Sequence[TopicPartition]) -> None:
        """Has the brokers look whether what stands before a place is still of the leader's term that we read it in: a
        partition may have lost its tail and grown beyond the place. In a group the client asks that at a seek only."""
        for start in starts:
            if start.leader_epoch is not None and start.leader_epoch >= 0:
                try:
                    consumer.seek(start)
                except KafkaException as error:
                    where = f"topic {start.topic}, partition {start.partition}"
                    raise Retryable(f"Kafka: the place cannot be looked at: {error.args[0]}", where=where) from error

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

    def _look_since(self, place: TopicPartition, known: Committed | None, partition: Partition, why: str) -> None:
        """What happened to the partition since it was committed."""
        if why == COMMITTED and partition.position == place.offset and place.leader_epoch is not None:
            partition.epoch = place.leader_epoch
        bounds = self._bounds(place.partition, _DEADLINE_S)
        if bounds is None:
            return
        if why in (COMMITTED, ANOTHER_STORE):
            partition.alive_ms = None if known is None else known.at_ms
            gap = gap_of(
                place.partition, place.offset, bounds, partition.alive_ms, self._clock_ms(), self._plan.forgets_ms
            )
            if gap.doubt or gap.cut:
                self._sink.remark(gap)
            partition.alive_ms = self._clock_ms()
        if bounds.low > partition.position:
            partition.position, partition.epoch = bounds.low, -1

    def _committed(self, incarnation: str, marks: tuple[tuple[int, int], ...]) -> Committed:
        return Committed(self._plan.generation, incarnation, marks, self._plan.born, self._clock_ms())

    def _revoke(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        leaving = [self._partitions[place.partition] for place in revoked if place.partition in self._partitions]
        try:
            self._commit(leaving)
        except EnrichError as error:  # the next owner reads again what is not committed
            _log.info("not committed at the end of an assignment: %s", error)
        self._lose(consumer, revoked)

    def _lose(self, consumer: Consumer, lost: list[TopicPartition]) -> None:  # noqa: ARG002 - a callback's signature
        for place in lost:
            self._partitions.pop(place.partition, None)
        gone = {place.partition for place in lost}
        self._heard_meanwhile = [each for each in self._heard_meanwhile if each.partition() not in gone]

    def _told(self, error: Retryable) -> None:
        if self.trouble is None:
            _log.warning("waiting: %s", error, extra={"topic": self._plan.topic})
        self.trouble, self.trouble_ms = error, self._clock_ms()

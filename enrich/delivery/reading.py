"""Reads records in batches whose size follows the store's speed, and notices what the client reports instead of one."""

import time

from confluent_kafka import KafkaError, Message, TopicPartition

from enrich.base.errors import Retryable, Unreachable
from enrich.delivery.partitions.assigned import DEADLINE_S
from enrich.delivery.partitions.gaps import Gap, gap_of
from enrich.delivery.partitions.positions import Partition
from enrich.delivery.plan import Work
from enrich.kafka import kafka_errors
from enrich.kafka.clients.errors import LOST_OFFSET, MISSING_TOPIC, mapped, missing_for_now

# How long a poll waits while there is nothing to read: it returns as soon as there is something.
IDLE_S = 0.1
_FIRST_RECORDS = 100
# If a poll returns so many at once, there is a backlog: do not wait for more.
_ENOUGH = 500
# Of records in one batch. Until they are written they take about five times as much: as rows, in the store's form and
# in the driver's.
MOST_BYTES = 2 * 2**20
_KEEP_ALIVE_S = 1.0
# While no broker answers: how often one is asked, and how long to wait for its answer.
_LOOK_EVERY_S = 1.0
_LOOK_S = 0.5
# How long a partition that was assigned may return neither a record nor its end.
_SILENT_S = 15.0


class Reading:
    """Adds to the pending records of the assigned partitions."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._assigned, self._plan, self._state = work.assigned, work.plan, work.state
        self._where = f"topic {work.plan.topic}"
        self._most = min(_FIRST_RECORDS, work.plan.most_records)
        self._polled_while_writing = False
        self._unheard: list[tuple[Partition, Message]] = []
        """What the client reported while a batch was being written."""
        self._next_keep_alive = 0.0
        self._next_look = 0.0
        self._patient_until = time.monotonic() + DEADLINE_S
        self.idle_s = IDLE_S
        self.is_slow = False
        """The last batch took so long that the next one should be smaller."""

    def read(self) -> None:
        for partition in self._assigned.all():
            partition.take_early()
        for message in self._poll():
            if (owner := self._owner(message)) is not None:  # else the poll itself revoked it
                owner.pending.append(message)
                owner.silent_since = None
        self._require_answers()

    def _require_answers(self) -> None:
        """A client that lost its session, as in a process that was frozen, may come back and never fetch: its next seek
        is forgotten. Each assigned partition returns a record or its end soon; if not, another client begins."""
        if not self._plan.is_watched:
            return  # its client does not say where partitions end
        now = time.monotonic()
        for partition in self._assigned.all():
            if partition.silent_since is None:
                continue
            if partition.paused or self._state.away is not None:
                partition.silent_since = now
            elif now - partition.silent_since > _SILENT_S:
                raise Retryable(
                    f"partition {partition.number} was assigned and returns nothing",
                    where=self._where,
                    next_step="the route begins again by itself",
                )

    def keep_alive(self) -> None:
        """Polls while a batch takes long: a member that does not poll for too long is dropped from its group."""
        now = time.monotonic()
        if now < self._next_keep_alive:
            return
        self._next_keep_alive, self._polled_while_writing = now + _KEEP_ALIVE_S, True
        for partition in self._assigned.all():
            self._assigned.hold(partition, max(now, partition.due))
        with kafka_errors(self._where):
            messages = self._assigned.consumer.consume(1, 0)
        for message in messages:
            if (owner := self._owner(message)) is None:
                continue
            if message.error() is None:
                owner.early.append(message)
            else:  # the client says it once: of a lost offset it would return nothing any more
                self._unheard.append((owner, message))

    def end_keep_alive(self) -> None:
        """To be called when the batch is written: reads on where `keep_alive` has held a partition."""
        if self._polled_while_writing:
            self._polled_while_writing = False
            for partition in self._assigned.all():
                if not partition.pending:
                    self._assigned.release(partition)

    def client_error(self, error: KafkaError) -> None:
        """Called by the client for an error that concerns no single record."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._state.away = Unreachable(
                "no broker answers", where=self._where, next_step="the route continues when one does"
            )

    def look_for_brokers(self) -> None:
        """While they are away. The client does not report that they are back until there is something to read."""
        if self._state.away is not None and time.monotonic() >= self._next_look:
            if self._assigned.bounds(TopicPartition(self._plan.topic, 0), _LOOK_S) is not None:
                self._state.away = None
            self._next_look = time.monotonic() + _LOOK_EVERY_S

    def _poll(self) -> list[Message]:
        consumer = self._assigned.consumer
        with kafka_errors(self._where):
            messages = consumer.consume(self._most, 0)
            if not messages and (first := consumer.poll(self.idle_s)) is not None:
                messages = [first]
            if 0 < len(messages) < min(_ENOUGH, self._most):
                messages += consumer.consume(self._most - len(messages), self._plan.gather_s)
        # Only a batch that itself takes long needs more polls: each one pauses the fetches, which costs half a second.
        self._next_keep_alive = time.monotonic() + _KEEP_ALIVE_S
        if self._assigned.fault is not None:
            fault, self._assigned.fault = self._assigned.fault, None
            raise fault
        records = []
        unheard, self._unheard = self._unheard, []
        for message in [*(message for owner, message in unheard if self._owner(message) is owner), *messages]:
            if (error := message.error()) is None:
                records.append(message)
            else:
                self._handle(error, message)
        if records:
            some = records[::16]
            average = sum(map(len, some)) // len(some) + 1
            wanted = self._most // 2 if self.is_slow else 2 * self._most
            self._most = max(1, min(self._plan.most_records, wanted, MOST_BYTES // average))
        return records

    def _handle(self, error: KafkaError, message: Message) -> None:
        if error.code() in MISSING_TOPIC and not self._assigned.all() and time.monotonic() < self._patient_until:
            return  # a topic that was just created is not known to every broker at once
        if error.code() == KafkaError._PARTITION_EOF:
            if (ended := self._owner(message)) is not None:
                ended.eof, ended.silent_since = message.offset() or 0, None
        elif error.code() in LOST_OFFSET:
            self._handle_lost_offset(message)
        elif error.code() in MISSING_TOPIC:
            # It existed when the route began: it is being recreated, or the brokers do not know it for a moment.
            raise missing_for_now(error, self._where)
        elif not error.retriable():
            raise mapped(error, f"topic {message.topic()}, partition {message.partition()}")

    def _handle_lost_offset(self, message: Message) -> None:
        partition = self._owner(message)
        if partition is None:
            return
        # The question stands behind a fetch of the other partitions, which brokers answer once there is something: by
        # default after half a second.
        bounds = self._assigned.bounds(partition.in_kafka, DEADLINE_S)
        if bounds is None:
            raise Retryable("a partition cannot be read on", where=self._where)
        lost = message.offset()
        missed = gap_of(
            partition.number, partition.position if lost is None or lost < 0 else lost, bounds, None, 0, None
        )
        if missed.doubt:  # the brokers have removed what comes next, and nothing that was read
            self._work.sink.remark(missed)
            self._assigned.read_from(partition, bounds.low)
            return
        gap = gap_of(partition.number, partition.position, bounds, None, 0, None)
        self._work.sink.remark(gap if gap.doubt or gap.cut else Gap(cut=f"partition {partition.number} was cut off"))
        start = partition.position if bounds.low <= partition.position <= bounds.high else bounds.low
        self._assigned.go_to(partition, start)

    def _owner(self, message: Message) -> Partition | None:
        return self._assigned.get(message.topic(), message.partition())

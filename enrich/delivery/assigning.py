"""What happens when a flow gets partitions, and when it gives them up: the callbacks of its consumer."""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from enrich.base.errors import EnrichError, Retryable
from enrich.delivery.committing import Committing
from enrich.delivery.partitions.assigned import DEADLINE_S
from enrich.delivery.partitions.gaps import gap_of
from enrich.delivery.partitions.positions import ANOTHER_STORE, COMMITTED, Committed, Marks, Partition, start_of
from enrich.delivery.plan import Handing, Work
from enrich.kafka import kafka_errors

_log = logging.getLogger("enrich.delivery")


class Assigning:
    """Begins each partition where its last owner ended, and remarks what happened to it since."""

    def __init__(self, work: Work, handing: Handing, committing: Committing) -> None:
        self._work = work
        self._handing = handing
        self._assigned, self._plan, self._state = work.assigned, work.plan, work.state
        self._committing = committing

    def subscribe(self) -> None:
        with kafka_errors(f"topic {self._plan.topic}"):
            self._assigned.consumer.subscribe(
                [self._plan.topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
            )

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            partitions = self._with_companions(partitions)
            with kafka_errors(f"topic {self._plan.topic}"):
                committed = consumer.committed(partitions, timeout=DEADLINE_S)
                for one in committed:
                    if one.error is not None:  # it would seem that nothing is committed
                        raise KafkaException(one.error)
            begun = [self._begin(one) for one in committed]
            self._handing.begin(self._known(partitions))
            # A flow that starts notices here that the store was replaced; it has written nothing yet.
            self._state.rewinds += any(why == ANOTHER_STORE for _, why in begun)
            starts = [start for start, _ in begun]
            with kafka_errors():
                consumer.incremental_assign(starts)
            self._check_epochs(consumer, starts)
            self._listen_anew()
            self._state.is_member = True
            if begun:  # the configuration is right: if the topic disappears later, only this route is held
                self._state.progressed_ms = self._state.progressed_ms or self._work.clock_ms()
        except EnrichError as error:
            self._assigned.fault = error

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        partitions = self._with_companions(partitions)
        leaving = self._known(partitions)
        self._handing.give_up(leaving)
        try:
            self._committing.commit(leaving)
        except EnrichError as error:  # the next owner reads again what is not committed
            _log.info("not committed at the end of an assignment: %s", error)
        self._remove(consumer, partitions)
        self._listen_anew()

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _log.info("partitions were lost: this instance was taken for dead", extra={"partitions": len(partitions)})
        partitions = self._with_companions(partitions)
        self._handing.lose(self._known(partitions))
        self._remove(consumer, partitions)

    def _listen_anew(self) -> None:
        """Beginning partitions and giving them up may take long. Nothing could be heard meanwhile."""
        for partition in self._assigned.all():
            if partition.silent_since is not None:
                partition.silent_since = time.monotonic()

    def _with_companions(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        if self._plan.companions is None:
            return [*partitions]
        more = [TopicPartition(*each) for one in partitions for each in self._plan.companions.of(one.partition)]
        return [*partitions, *more]

    def _known(self, partitions: list[TopicPartition]) -> list[Partition]:
        found = [self._assigned.get(one.topic, one.partition) for one in partitions]
        return [partition for partition in found if partition is not None]

    def _remove(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # The client keeps what is paused paused: if it comes back, nothing would be read of it.
        for partition in self._known(partitions):
            with suppress(EnrichError):
                self._assigned.release(partition)
        for one in partitions:
            self._assigned.remove(one.topic, one.partition)
        # The client would do it by itself, but knows nothing of companions. It fails if the assignment had failed.
        with suppress(KafkaException):
            consumer.incremental_unassign(partitions)

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
        """Where the partition is read from, and why."""
        plan, current = self._plan, self._committing.note(committed.topic)
        now_ms = self._work.clock_ms()
        start, why = start_of(committed, dict(plan.starts), current, now_ms, plan.rewind_ms)
        known = Committed.from_text(committed.metadata)
        is_current = known is not None and known.generation == current.generation
        marks = Marks(plan.rewind_ms, known.on_clock_of(now_ms) if known is not None and is_current else ())
        marks.forget_after(start)
        marks.add(now_ms, start)
        reached = committed.offset if committed.offset >= 0 else None
        partition = Partition(committed.topic, committed.partition, start, marks, reached)
        if known is not None and why == COMMITTED:
            partition.done = known.done
        if plan.is_watched:
            self._look_since(committed, known, partition, why)
        partition.reported = partition.position
        self._assigned.add(partition)
        extra = {"topic": partition.topic, "partition": partition.number, "offset": partition.position, "because": why}
        _log.info("a partition was assigned", extra=extra)
        return TopicPartition(partition.topic, partition.number, partition.position, leader_epoch=partition.epoch), why

    def _look_since(self, committed: TopicPartition, known: Committed | None, partition: Partition, why: str) -> None:
        """Remarks what happened to the partition since its last commit."""
        if why == COMMITTED and partition.position == committed.offset and committed.leader_epoch is not None:
            partition.epoch = committed.leader_epoch
        bounds = self._assigned.bounds(partition.in_kafka, DEADLINE_S)
        if bounds is None:
            return
        if why in (COMMITTED, ANOTHER_STORE):
            now_ms, kept_ms = self._work.clock_ms(), self._plan.tombstones_kept_ms
            partition.alive_ms = None if known is None else known.at_ms
            gap = gap_of(partition.number, committed.offset, bounds, partition.alive_ms, now_ms, kept_ms)
            if gap.doubt or gap.cut:
                self._work.sink.remark(gap)
            partition.alive_ms = now_ms
        # Above the end: the topic was recreated, and the sink goes on with what is in it now.
        if partition.position > bounds.high:
            partition.done = ()
        if not bounds.low <= partition.position <= bounds.high:
            partition.position, partition.epoch = bounds.low, -1

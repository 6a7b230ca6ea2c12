"""Commits what the store has, and goes back if the store may have lost some of it."""

import logging
from collections.abc import Collection

from confluent_kafka import TopicPartition

from enrich.delivery.partitions.gaps import Bounds, gap_of
from enrich.delivery.partitions.positions import Committed, Pairs, Partition
from enrich.delivery.plan import Advance, Work
from enrich.kafka.clients.errors import errors_of_known_topic

_log = logging.getLogger("enrich.delivery")

# How often an idle partition is committed again.
_ALIVE_MS = 600_000


class Committing:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._assigned, self._plan = work.assigned, work.plan
        self._incarnation = ""

    def begin(self) -> None:
        """Finds out which incarnation of the store it is. To be called before the first partition is assigned."""
        self._incarnation = self._work.sink.settle()

    def commit_all(self) -> None:
        """Raises Retryable if it cannot be committed now: the same is committed the next time, or read again."""
        if not self.commit(self._assigned.all()):
            self._rewind()

    def commit(self, partitions: Collection[Partition]) -> bool:
        """False if the store was restarted or replaced: writes that it acknowledged before may be lost."""
        if self._work.sink.settle() != self._incarnation:
            return False
        self._report(partitions)
        now_ms, offsets, done = self._work.clock_ms(), [], []
        for partition in partitions:
            beyond = partition.settled_beyond
            is_news = partition.committed != partition.position or partition.done != beyond
            if is_news or self._is_silent(partition, now_ms):
                partition.marks.add(now_ms, partition.position)
                note = self.note(partition.topic, partition.marks.all(), beyond).to_text()
                fields = (partition.topic, partition.number, partition.position, note, partition.epoch)
                offsets.append(TopicPartition(*fields))
                done.append((partition, partition.position, beyond))
        if offsets:
            with errors_of_known_topic(f"topic {self._plan.topic}"):
                self._assigned.consumer.commit(offsets=offsets, asynchronous=False)
            for partition, position, beyond in done:
                self._look_back(partition, now_ms)
                partition.committed, partition.done, partition.alive_ms = position, beyond, now_ms
        return True

    def _report(self, partitions: Collection[Partition]) -> None:
        """Before the offsets: what is committed is not read again, and nobody could report it any more."""
        advances = []
        for partition in partitions:
            first, following = partition.reported, partition.position
            if first is not None and following > first:
                advances.append(Advance(partition.topic, partition.number, first, following))
            partition.reported = following
        self._work.sink.report(advances)

    def note(self, topic: str, marks: Pairs = (), done: Pairs = ()) -> Committed:
        """What is committed beside an offset."""
        plan = self._plan
        born = plan.born or plan.topic_ids.get(topic, "")
        return Committed(plan.generation, self._incarnation, marks, born, self._work.clock_ms(), done)

    def _is_silent(self, partition: Partition, now_ms: int) -> bool:
        """Whether a partition that is read to its end was not committed for a while."""
        is_done = partition.end is not None and max(partition.position, partition.eof) >= partition.end
        is_done = is_done and not partition.pending
        every_ms = min(_ALIVE_MS, (self._plan.tombstones_kept_ms or _ALIVE_MS) // 4)
        due_ms = (partition.alive_ms or 0) + every_ms
        return self._plan.is_watched and is_done and self._work.state.away is None and now_ms >= due_ms

    def _look_back(self, partition: Partition, now_ms: int) -> None:
        """Remarks a gap if nothing was committed for so long before this commit that tombstones may be gone."""
        if self._plan.is_watched and partition.committed is not None:
            bounds, kept_ms = Bounds(0, partition.position), self._plan.tombstones_kept_ms
            gap = gap_of(partition.number, partition.committed, bounds, partition.alive_ms, now_ms, kept_ms)
            if gap.doubt is not None:
                self._work.sink.remark(gap)

    def _rewind(self) -> None:
        """Goes back after the store was restarted or replaced: it may have lost writes that it had acknowledged."""
        self._incarnation = self._work.sink.settle()
        self._work.state.rewinds += 1
        for partition in self._assigned.all():
            rewound = self.note(partition.topic, partition.marks.all()).rewound(
                self._work.clock_ms(), self._plan.rewind_ms
            )
            start = max(partition.position if rewound is None else rewound, self._plan.starts.get(partition.number, 0))
            known = {"topic": partition.topic, "partition": partition.number, "from": partition.position, "to": start}
            _log.warning("the store was restarted or replaced: going back", extra=known)
            partition.committed = None
            partition.marks.forget_after(start)
            self._assigned.go_to(partition, start)
            self._assigned.release(partition)

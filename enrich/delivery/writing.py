"""Hands pending records to the sink: those of all partitions at once, those that were refused partition by partition,
after a growing pause."""

import time
from collections.abc import Collection

from enrich.base.errors import Retryable
from enrich.delivery.partitions.positions import Partition
from enrich.delivery.plan import BatchSink, Work
from enrich.delivery.reading import MOST_BYTES, Reading

# Of records of all partitions that wait for the store. Above it nothing is read.
_MOST_PENDING_BYTES = 4 * MOST_BYTES
# A batch that takes longer is followed by a smaller one.
_SLOW_S = 5.0


class Writing:
    """See `Handing`: everything that is due is written before anything else is read."""

    has_room = True
    is_commit_due = False

    def __init__(self, work: Work, reading: Reading, sink: BatchSink) -> None:
        self._work = work
        self._sink = sink
        self._assigned, self._plan = work.assigned, work.plan
        self._reading = reading
        self._is_full = False

    @property
    def waiting(self) -> list[int]:
        """The partitions whose records the store did not take."""
        return sorted(p.number for p in self._assigned.all() if p.pending and p.backoff.tries)

    def hand_over(self) -> None:
        now = time.monotonic()
        due = [partition for partition in self._assigned.all() if partition.pending and partition.due <= now]
        if self._plan.wait_ms:
            due = [partition for partition in due if self._is_old_enough(partition)]
        fresh = [partition for partition in due if not partition.backoff.tries]
        for group in ([fresh] if fresh else []) + [[partition] for partition in due if partition.backoff.tries]:
            self._write(group)
        self._reading.end_keep_alive()
        self._throttle()

    def begin(self, partitions: Collection[Partition]) -> None:
        """Nothing is kept of a partition."""

    def give_up(self, partitions: Collection[Partition]) -> None:
        """Nothing is under way between two calls."""

    def lose(self, partitions: Collection[Partition]) -> None:
        """The same."""

    def committed(self) -> None:
        """Nothing is kept of it."""

    def _write(self, group: list[Partition]) -> None:
        began = time.monotonic()
        try:
            records = [message for partition in group for message in partition.pending]
            self._sink.take(records, self._reading.keep_alive)
        except Retryable as error:
            self._work.note_trouble(error)
            for partition in group:
                # Not one that went meanwhile: the client would keep it paused, and read nothing of it once it is back.
                if self._assigned.get(partition.topic, partition.number) is partition:
                    self._assigned.hold(partition, time.monotonic() + partition.backoff.next_s())
        else:
            self._reading.is_slow = time.monotonic() - began > _SLOW_S
            for partition in group:
                partition.written()
                self._assigned.release(partition)

    def _throttle(self) -> None:
        """Reads nothing while too much waits for the store: this bounds memory however many partitions there are."""
        partitions = self._assigned.all()
        waiting = [partition for partition in partitions if partition.pending]
        if not waiting and not self._is_full:
            return
        self._is_full = sum(len(m) for partition in waiting for m in partition.pending) > _MOST_PENDING_BYTES
        for partition in partitions:
            if not partition.pending:
                if self._is_full:
                    self._assigned.hold(partition, time.monotonic())
                else:
                    self._assigned.release(partition)

    def _is_old_enough(self, partition: Partition) -> bool:
        """Records of a retry topic are in the order of their times, so the newest pending one decides. From when it was
        read it waits for the pause at most: the clock that it has its time of may be ahead of this one."""
        now, newest = time.monotonic(), partition.pending[-1]
        if partition.waits_until is None or partition.waits_until[0] != newest.offset():
            partition.waits_until = newest.offset(), now + self._plan.wait_ms / 1000
        rest_s = (newest.timestamp()[1] + self._plan.wait_ms - self._work.clock_ms()) / 1000
        rest_s = min(rest_s, partition.waits_until[1] - now)
        if rest_s > 0:
            self._assigned.hold(partition, now + min(rest_s, 1.0))
        return rest_s <= 0

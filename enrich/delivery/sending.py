"""Hands pending records to a sink that settles them one by one, within bounds of records and bytes."""

import time
from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import Message

from enrich.delivery.partitions.positions import Partition
from enrich.delivery.partitions.window import Window
from enrich.delivery.plan import StreamSink, Work
from enrich.delivery.reading import IDLE_S, Reading
from enrich.kafka.records import size_of

# While something is under way the consumer is not waited for: what is settled has to be committed.
_LOOK_S = 0.005
_FULL_WAIT_S = 0.05
# So long without a poll nobody waits for: not the group's other members in a rebalance. Pausing sooner would throw away
# what the client has fetched each time that the sink is busy for a moment.
_HOLD_AFTER_S = 1.0


@dataclass(frozen=True)
class Bounds:
    """What may be read and not yet settled, of all partitions together."""

    records: int
    bytes: int
    patience_s: float
    """How long to wait for what is under way before partitions are given up."""


class Sending:
    """See `Handing`."""

    waiting: list[int] = []  # noqa: RUF012 - never filled: what waits is the sink's to say

    def __init__(self, work: Work, reading: Reading, sink: StreamSink, bounds: Bounds) -> None:
        self._assigned = work.assigned
        self._reading = reading
        self._sink = sink
        self._bounds = bounds
        self._full_since: float | None = None
        self._holds = False

    @property
    def has_room(self) -> bool:
        # A full window is polled all the same after a while: members that leave or come are not kept waiting.
        return self._full_since is None or self._holds

    @property
    def is_commit_due(self) -> bool:
        return self._sink.is_commit_due

    def hand_over(self) -> None:
        self._settle()
        offered: list[Message] = []
        for partition in self._assigned.all():
            if partition.pending:
                self._take(partition, offered)
            elif partition.eof:  # also if nothing came since it was assigned: what stands there may be no records
                window = self._window(partition)
                window.read_to(partition.eof)
                partition.position = window.position
        if offered:
            self._sink.offer(offered)
        is_busy = any(partition.window for partition in self._assigned.all())
        self._reading.idle_s = _LOOK_S if is_busy else IDLE_S
        if is_busy and not offered:
            self._sink.settles.wait(_LOOK_S)
        self._wait_for_room()

    def begin(self, partitions: Collection[Partition]) -> None:
        self._sink.begin([(partition.topic, partition.number) for partition in partitions])

    def give_up(self, partitions: Collection[Partition]) -> None:
        if partitions:
            names = [(partition.topic, partition.number) for partition in partitions]
            self._sink.withdraw(names, self._bounds.patience_s)
            self._settle()

    def lose(self, partitions: Collection[Partition]) -> None:
        self._sink.withdraw([(partition.topic, partition.number) for partition in partitions], 0.0)

    def committed(self) -> None:
        self._sink.committed()

    def _take(self, partition: Partition, offered: list[Message]) -> None:
        window = self._window(partition)
        for message in partition.pending:
            offset = message.offset()
            if offset is not None and window.take(offset, size_of(message)):
                offered.append(message)
        epoch = partition.pending[-1].leader_epoch()
        partition.epoch = -1 if epoch is None else epoch
        partition.pending.clear()

    def _window(self, partition: Partition) -> Window:
        if partition.window is None:
            partition.window = Window(partition.position, partition.done)
        return partition.window

    def _settle(self) -> None:
        self._sink.settles.clear()
        for (topic, number), offsets in self._sink.settled():
            partition = self._assigned.get(topic, number)
            if partition is not None and partition.window is not None:
                partition.window.settle(offsets)
                partition.position = partition.window.position

    def _wait_for_room(self) -> None:
        windows = [partition.window for partition in self._assigned.all() if partition.window is not None]
        is_full = (
            sum(map(len, windows)) >= self._bounds.records
            or sum(window.size for window in windows) >= self._bounds.bytes
        )
        if not is_full:
            if self._holds:
                for partition in self._assigned.all():
                    self._assigned.release(partition)
            self._full_since, self._holds = None, False
            return
        now = time.monotonic()
        if self._full_since is None:
            self._full_since = now
        if now - self._full_since >= _HOLD_AFTER_S:
            self._holds = True
            for partition in self._assigned.all():
                self._assigned.hold(partition, now)
        self._sink.settles.wait(_FULL_WAIT_S)

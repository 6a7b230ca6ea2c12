"""What a flow commits, and where it goes back to if its store has lost what it had acknowledged."""

from collections.abc import Sequence
from typing import cast

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from enrich.delivery.committing import Committing
from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.partitions.positions import Marks, Partition
from enrich.delivery.plan import Advance, FlowPlan, Sink, Work

WINDOW_MS = 600_000


class Killed(BaseException): ...


class Both:
    """Consumer and sink in one."""

    def __init__(self) -> None:
        self.incarnation = "first"
        self.is_killed = False
        """Once the brokers have the next commit."""
        self.committed: list[int] = []
        self.reported: list[Advance] = []
        self.paused: set[int] = set()
        self.read_from: list[int] = []

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        assert not asynchronous
        self.committed += [one.offset for one in offsets]
        if self.is_killed:
            raise Killed

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused |= {one.partition for one in partitions}

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused -= {one.partition for one in partitions}

    def seek(self, place: TopicPartition) -> None:
        self.read_from.append(place.offset)

    def settle(self) -> str:
        return self.incarnation

    def report(self, advances: Sequence[Advance]) -> None:
        self.reported += advances


class Route:
    """It has one partition, and a clock that a test sets."""

    def __init__(self) -> None:
        self.both, self.now_ms = Both(), 0
        assigned = Assigned(cast("Consumer", self.both))
        self.work = Work(FlowPlan("rows", 1, {}, WINDOW_MS), cast("Sink", self.both), assigned, lambda: self.now_ms)
        self.partition = Partition("rows", 0, 0, Marks(WINDOW_MS), reported=0)
        assigned.add(self.partition)
        self._committing = Committing(self.work)
        self._committing.begin()

    def reaches(self, position: int, *, at_ms: int) -> None:
        self.partition.position, self.now_ms = position, at_ms
        self._committing.commit_all()

    def loses_its_store(self, incarnation: str, *, at_ms: int) -> None:
        self.both.incarnation, self.now_ms = incarnation, at_ms
        self._committing.commit_all()


def test_what_is_committed_was_reported_before() -> None:
    """Nobody reads it again: after a kill in between it would never be."""
    route = Route()
    route.both.is_killed = True
    with pytest.raises(Killed):
        route.reaches(9, at_ms=1)
    assert route.both.committed == [9]
    assert route.both.reported == [Advance("rows", 0, 0, 9)]


def test_a_store_that_is_lost_again_gets_what_it_was_given_again_since_the_first_time() -> None:
    """A place that was reached before the first loss says nothing of what the next store has."""
    route = Route()
    route.reaches(100, at_ms=0)
    route.reaches(900, at_ms=500_000)
    route.loses_its_store("second", at_ms=550_000)
    assert (route.partition.position, route.both.read_from) == (100, [100])
    route.reaches(200, at_ms=560_000)
    route.reaches(300, at_ms=1_110_000)
    route.loses_its_store("third", at_ms=1_115_000)
    assert (route.partition.position, route.both.read_from) == (100, [100, 100])


def test_a_partition_whose_rows_wait_for_a_store_that_is_replaced_is_read_on() -> None:
    route = Route()
    route.reaches(100, at_ms=0)
    route.partition.pending.append(cast("Message", b"a record"))
    route.work.assigned.hold(route.partition, 1.0)
    assert route.both.paused == {0}
    route.loses_its_store("second", at_ms=1)
    assert not route.partition.pending
    assert route.both.paused == set()

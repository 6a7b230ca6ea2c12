"""What a flow does when it gets partitions, and when it gives some up, while that takes long."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from enrich.base.errors import Retryable, Unreachable
from enrich.delivery.assigning import Assigning
from enrich.delivery.committing import Committing
from enrich.delivery.flow import Flow
from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.partitions.gaps import Gap
from enrich.delivery.partitions.positions import Committed, Partition
from enrich.delivery.plan import BatchSink, FlowPlan, Handing, Sink, Work
from enrich.delivery.reading import Reading
from enrich.delivery.writing import Writing


class _Slow:
    """Consumer, sink and handing in one: it takes note of when it was asked for the last time."""

    def __init__(self) -> None:
        self.on: dict[str, Any] = {}
        self.last_s = 0.0
        self.paused: set[int | None] = set()

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {one.partition for one in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {one.partition for one in partitions}

    def subscribe(self, _: list[str], **callbacks: Any) -> None:
        self.on = callbacks

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:  # noqa: ARG002 - the client's
        return [TopicPartition(one.topic, one.partition, 5) for one in partitions]

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 10

    def incremental_assign(self, _: list[TopicPartition]) -> None: ...

    def incremental_unassign(self, _: list[TopicPartition]) -> None: ...

    def commit(self, **_: Any) -> None: ...

    def settle(self) -> str:
        return ""

    def report(self, _: Any) -> None: ...

    def begin(self, _: Collection[Partition]) -> None:
        self.last_s = time.monotonic()

    def give_up(self, _: Collection[Partition]) -> None:
        self.last_s = time.monotonic()

    def lose(self, _: Collection[Partition]) -> None: ...


def begun(slow: _Slow) -> Work:
    """A flow with two partitions."""
    consumer, sink, handing = cast("Consumer", slow), cast("Sink", slow), cast("Handing", slow)
    work = Work(FlowPlan("events", 0, {}, 0), sink, Assigned(consumer), lambda: 0)
    Assigning(work, handing, Committing(work)).subscribe()
    slow.on["on_assign"](consumer, [TopicPartition("events", 0), TopicPartition("events", 1)])
    assert work.assigned.fault is None, repr(work.assigned.fault)
    return work


def test_a_partition_that_is_given_up_or_lost_is_not_left_paused():
    """The client would keep it paused, and read nothing of it once it is back."""
    slow = _Slow()
    work = begun(slow)
    for partition in work.assigned.all():
        work.assigned.hold(partition, 0.0)
    assert slow.paused == {0, 1}
    slow.on["on_revoke"](slow, [TopicPartition("events", 0)])
    assert slow.paused == {1}
    slow.on["on_lost"](slow, [TopicPartition("events", 1)])
    assert not slow.paused


def test_a_partition_that_goes_while_its_records_are_written_in_vain_is_not_left_paused():
    """Neither if it is another's by then, nor if it is back."""
    slow = _Slow()
    work = begun(slow)

    class Refusing:
        def take(self, _: Sequence[Message], keep_alive: Callable[[], object]) -> None:  # noqa: ARG002 - it polls
            slow.on["on_revoke"](slow, [TopicPartition("events", 0), TopicPartition("events", 1)])
            slow.on["on_assign"](slow, [TopicPartition("events", 1)])
            raise Unreachable("the store does not answer")

    reading = cast("Reading", SimpleNamespace(keep_alive=lambda: None, end_keep_alive=lambda: None))
    for partition in work.assigned.all():
        partition.pending.append(cast("Message", b"a record"))
    Writing(work, reading, cast("BatchSink", Refusing())).hand_over()
    assert [partition.number for partition in work.assigned.all()] == [1]
    assert not slow.paused


def test_a_flow_that_cannot_commit_what_it_did_last_says_so():
    class Last(_Slow):
        def subscribe(self, _: list[str], **callbacks: Any) -> None:
            self.on = callbacks
            self.on["on_assign"](self, [TopicPartition("events", 0)])

        def give_up(self, partitions: Collection[Partition]) -> None:
            for partition in partitions:
                partition.position += 1

        def commit(self, **_: Any) -> None:
            raise KafkaException(KafkaError(KafkaError._WAIT_COORD))

    last, stopping = Last(), threading.Event()
    stopping.set()
    sink, handing = cast("Sink", last), cast("Handing", last)
    flow = Flow(cast("Consumer", last), FlowPlan("events", 0, {}, 0), sink, lambda *_: handing)
    with pytest.raises(Retryable, match="oordinator"):
        flow.run(stopping)


def test_for_how_long_a_partition_is_silent_counts_from_when_all_are_begun_or_given_up():
    slow = _Slow()
    work = begun(slow)

    def silences() -> list[float]:
        return [partition.silent_since or 0.0 for partition in work.assigned.all()]

    assert len(silences()) == 2 and min(silences()) >= slow.last_s
    slow.on["on_revoke"](slow, [TopicPartition("events", 0)])
    assert len(silences()) == 1 and min(silences()) >= slow.last_s
    work.assigned.all()[0].silent_since = None  # something came
    slow.on["on_assign"](slow, [])
    assert silences() == [0.0]


class Left(_Slow):
    """A partition with what its last owner has committed of it. It has offsets up to 10 now."""

    def __init__(self, offset: int, note: Committed) -> None:
        super().__init__()
        self.offset, self.note = offset, note
        self.remarked: list[Gap] = []

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:  # noqa: ARG002 - the client's
        return [TopicPartition(one.topic, one.partition, self.offset, self.note.to_text()) for one in partitions]

    def remark(self, gap: Gap) -> None:
        self.remarked.append(gap)

    def begun(self, plan: FlowPlan) -> Partition:
        consumer, handing = cast("Consumer", self), cast("Handing", self)
        work = Work(plan, cast("Sink", self), Assigned(consumer), lambda: 550_000)
        Assigning(work, handing, Committing(work)).subscribe()
        self.on["on_assign"](consumer, [TopicPartition("events", 0)])
        assert work.assigned.fault is None
        (partition,) = work.assigned.all()
        return partition


def test_a_partition_of_which_nobody_says_what_is_committed_is_not_read_from_its_beginning():
    class Refused(_Slow):
        def committed(self, *_: Any, **__: Any) -> list[Any]:
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            return [SimpleNamespace(topic="events", partition=0, offset=-1001, metadata=None, error=error)]

    with pytest.raises(AssertionError, match="ConfigError"):
        begun(Refused())


@pytest.mark.parametrize(
    ("offset", "born", "position", "done"),
    [(5, "now", 5, ((7, 8),)), (5, "gone", 0, ()), (50, "", 0, ())],
    ids=["of this topic", "of one before it", "beyond its end"],
)
def test_what_was_settled_beyond_the_offset_is_so_only_in_the_topic_of_the_offset(offset, born, position, done):
    """Another topic of the name has other events there, which nobody has delivered."""
    note = Committed(0, "", (), born, at_ms=1, done=((7, 8),))
    partition = Left(offset, note).begun(FlowPlan("events", 0, {}, 0, topic_ids={"events": "now"}))
    assert (partition.position, partition.done) == (position, done)


def test_who_begins_with_another_store_does_not_know_places_that_the_one_before_it_had_reached():
    """They would count as reached by this one, if it is lost too."""
    note = Committed(0, "the one before", ((0, 3), (500_000, 9)), at_ms=550_000)
    partition = Left(9, note).begun(FlowPlan("events", 0, {}, 600_000))
    assert partition.position == 3
    assert partition.marks.all() == ((0, 3), (550_000, 3))


def test_what_ends_while_a_partition_is_given_up_is_committed():
    """Its next owner would do it again."""

    class Ends(_Slow):
        last: Sequence[tuple[int, int]] = ()

        def give_up(self, partitions: Collection[Partition]) -> None:
            for partition in partitions:
                partition.position = 9

        def commit(self, **given: Any) -> None:
            self.last = [(one.partition, one.offset) for one in given["offsets"]]

    ends = Ends()
    begun(ends)
    ends.on["on_revoke"](ends, [TopicPartition("events", 0)])
    assert ends.last == [(0, 9)]

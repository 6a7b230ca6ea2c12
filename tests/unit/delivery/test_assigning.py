"""What a flow does when it gets partitions, and when it gives some up, while that takes long."""

import time
from collections.abc import Collection
from typing import Any, cast

from confluent_kafka import Consumer, TopicPartition

from enrich.delivery.assigning import Assigning
from enrich.delivery.committing import Committing
from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.partitions.positions import Partition
from enrich.delivery.plan import FlowPlan, Handing, Sink, Work


class _Slow:
    """Consumer, sink and handing in one: it takes note of when it was asked for the last time."""

    def __init__(self) -> None:
        self.on: dict[str, Any] = {}
        self.last_s = 0.0

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


def test_for_how_long_a_partition_is_silent_counts_from_when_all_are_begun_or_given_up():
    slow = _Slow()
    consumer, sink, handing = cast("Consumer", slow), cast("Sink", slow), cast("Handing", slow)
    work = Work(FlowPlan("events", 0, {}, 0), sink, Assigned(consumer), lambda: 0)
    assigning = Assigning(work, handing, Committing(work))
    assigning.subscribe()
    first, second = TopicPartition("events", 0), TopicPartition("events", 1)
    slow.on["on_assign"](consumer, [first, second])
    assert work.assigned.fault is None

    def silences() -> list[float]:
        return [partition.silent_since or 0.0 for partition in work.assigned.all()]

    assert len(silences()) == 2 and min(silences()) >= slow.last_s
    slow.on["on_revoke"](consumer, [first])
    assert len(silences()) == 1 and min(silences()) >= slow.last_s
    work.assigned.all()[0].silent_since = None  # something came
    slow.on["on_assign"](consumer, [])
    assert silences() == [0.0]

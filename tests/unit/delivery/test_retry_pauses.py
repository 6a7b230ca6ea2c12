"""How long records of a retry topic wait where the clocks of those who write and read them differ."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import Consumer, Message

from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.partitions.positions import Marks, Partition
from enrich.delivery.plan import BatchSink, FlowPlan, Work
from enrich.delivery.reading import Reading
from enrich.delivery.writing import Writing
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000


class Record:
    """At offset 7, of a clock that is ten hours ahead."""

    def __len__(self) -> int:
        return 10

    def timestamp(self) -> tuple[int, int]:
        return 1, 10 * HOUR_MS

    def offset(self) -> int:
        return 7

    def leader_epoch(self) -> int:
        return 0


class Store:
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def take(self, records: Sequence[Message], keep_alive: Callable[[], object]) -> None:  # noqa: ARG002 - quick
        self.taken += records


def test_a_record_of_a_clock_that_is_hours_ahead_waits_for_no_longer_than_the_pause() -> None:
    consumer = SimpleNamespace(pause=lambda _: None, resume=lambda _: None)
    plan = FlowPlan("rows.retry", 0, {}, 0, wait_ms=1)
    work = Work(plan, cast(Any, None), Assigned(cast("Consumer", consumer)), lambda: 0)
    partition = Partition("rows.retry", 0, 7, Marks(1))
    work.assigned.add(partition)
    partition.pending.append(cast("Message", Record()))
    store, reading = Store(), cast("Reading", SimpleNamespace(keep_alive=lambda: None, end_keep_alive=lambda: None))
    writing = Writing(work, reading, cast("BatchSink", store))

    def is_taken() -> bool:
        writing.hand_over()
        return bool(store.taken)

    wait_until(is_taken, what="the record in the store", deadline_s=60)
    assert partition.position == 8

"""How much is read and not settled."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Message

from enrich.delivery.partitions.positions import Marks, Partition
from enrich.delivery.sending import Bounds, Sending


@pytest.mark.parametrize("large", ["key", "value", "headers"])
def test_all_that_a_record_has_counts_among_the_bytes_that_may_be_read(large: str) -> None:
    content: dict[str, Any] = {"key": b"k" * 1_000, "value": b"v" * 1_000, "headers": [("h", b"x" * 1_000)]}
    partition = Partition("plays", 0, 0, Marks(60_000))
    partition.pending = [Message(topic="plays", partition=0, offset=0, **{large: content[large]})]
    settles = SimpleNamespace(clear=lambda: None, wait=lambda _: None)
    sink = SimpleNamespace(settles=settles, settled=list, offer=lambda _: None)
    assigned = SimpleNamespace(all=lambda: [partition])
    work, reading = SimpleNamespace(assigned=assigned), SimpleNamespace()
    sending = Sending(cast("Any", work), cast("Any", reading), cast("Any", sink), Bounds(100, 1_000, 0.0))
    assert sending.has_room
    sending.hand_over()
    assert not sending.has_room


def test_what_is_settled_while_a_partition_is_withdrawn_is_in_the_position_that_is_committed_last() -> None:
    partition = Partition("plays", 0, 0, Marks(60_000))
    partition.pending = [Message(topic="plays", partition=0, offset=0, value=b"v")]
    settled: list[tuple[tuple[str, int], Sequence[int]]] = []

    def withdraw(partitions: Sequence[tuple[str, int]], _: float) -> None:
        settled.extend((each, [0]) for each in partitions)

    settles = SimpleNamespace(clear=lambda: None, wait=lambda _: None)
    sink = SimpleNamespace(settles=settles, settled=lambda: settled, offer=lambda _: None, withdraw=withdraw)
    assigned = SimpleNamespace(all=lambda: [partition], get=lambda *_: partition)
    work, reading = SimpleNamespace(assigned=assigned), SimpleNamespace()
    sending = Sending(cast("Any", work), cast("Any", reading), cast("Any", sink), Bounds(100, 1_000, 0.0))
    sending.hand_over()
    assert partition.position == 0
    sending.give_up([partition])
    assert partition.position == 1

"""How much is read and not settled."""

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

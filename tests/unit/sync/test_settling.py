"""What a write-back route may commit."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.base.errors import EnrichError, Unreachable
from sync_service.writeback.generation import AnotherGeneration
from sync_service.writeback.onward import BrokenProducer, Destinations, Onward
from sync_service.writeback.sink import StoreSink


class Brokers:
    def __init__(self, error: EnrichError | None = None) -> None:
        self._error = error

    def flush(self) -> None:
        if self._error is not None:
            raise self._error


class Gate:
    def __init__(self, error: EnrichError | None = None) -> None:
        self._error = error

    def verify(self, _: object) -> None:
        if self._error is not None:
            raise self._error


def settle(brokers: Brokers, gate: Gate) -> str:
    destinations = Destinations("out", "out.dlq", "out.retry.1s", "plays")
    onward = Onward(cast(Any, brokers), destinations, 1_000_000, cast(Any, None))
    nothing: Any = None
    own: Any = (SimpleNamespace(incarnation=lambda: "one"), nothing, nothing, onward, nothing, (gate, nothing), nothing)
    return StoreSink(*own, is_tier=False).settle()


def test_while_a_record_that_was_sent_on_is_not_acknowledged_nothing_is_committed() -> None:
    """It would stand in no topic after a kill: neither read again, nor tried again, nor a dead letter."""
    with pytest.raises(BrokenProducer, match="not acknowledged"):
        settle(Brokers(Unreachable("1 records were not acknowledged within 30 s")), Gate())


def test_what_was_written_for_another_topic_or_store_is_not_committed() -> None:
    """Records of the new topic would be passed by, or rows of an emptied store not be written again."""
    assert settle(Brokers(), Gate()) == "one"
    with pytest.raises(AnotherGeneration):
        settle(Brokers(), Gate(AnotherGeneration("the topic was recreated")))

"""What a write-back route may commit."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.base.errors import Unreachable
from sync_service.writeback.onward import BrokenProducer, Destinations, Onward
from sync_service.writeback.sink import StoreSink


class Brokers:
    """They do not acknowledge what is in their producer."""

    def flush(self) -> None:
        raise Unreachable("1 records were not acknowledged within 30 s")


def test_while_a_record_that_was_sent_on_is_not_acknowledged_nothing_is_committed() -> None:
    """It would stand in no topic after a kill: neither read again, nor tried again, nor a dead letter."""
    destinations = Destinations("out", "out.dlq", "out.retry.1s", "plays")
    onward = Onward(cast(Any, Brokers()), destinations, 1_000_000, cast(Any, None))
    store, gate = SimpleNamespace(incarnation=lambda: "one"), SimpleNamespace(verify=lambda _: None)
    nothing: Any = None
    own: Any = (store, nothing, nothing, onward, nothing, (gate, nothing), nothing)
    with pytest.raises(BrokenProducer, match="not acknowledged"):
        StoreSink(*own, is_tier=False).settle()

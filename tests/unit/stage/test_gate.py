"""No event meets a table that is older than its bound, unless the configuration lets it be marked."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.base.errors import Unreachable
from enrich.config import OnStale, Then
from enrich.host.ipc.header import Header, TableState
from enrich.host.reader.reading import AgentSnapshot
from enrich.stage.task.freshness import FreshnessRule
from enrich.stage.worker.gate import Gate
from tests.support.clock import ManualClock

BOUND_MS = 1_000
OLD_MS = 60_000


class Host:
    """Its table is complete through these moments, one look after the other; the last one stays."""

    def __init__(self, *through_ms: int) -> None:
        self.through_ms = [*through_ms]

    def snapshot(self) -> AgentSnapshot:
        through = self.through_ms.pop(0) if len(self.through_ms) > 1 else self.through_ms[0]
        header = Header("store", 0, 1, 0, 1, 1, 1, {"users": TableState(ready=True, complete_through=through)})
        view: Any = SimpleNamespace(positions={0: 1}, complete_through=through)
        return AgentSnapshot(header.seq, header, {"users": view})


def gate_of(host: Host, clock: ManualClock, on_stale: OnStale, then: Then = Then.fail) -> Gate:
    deadline_s = 0.2 if on_stale == OnStale.wait else 60.0
    return Gate(cast(Any, host), [FreshnessRule("users", deadline_s, BOUND_MS, on_stale, then)], clock)


def through_of(snapshot: AgentSnapshot) -> int | None:
    return snapshot.header.tables["users"].complete_through


@pytest.mark.parametrize("on_stale", [OnStale.mark, OnStale.fail])
def test_a_worker_that_comes_later_waits_for_rows_as_fresh_as_when_it_came(on_stale: OnStale) -> None:
    """Those of before are not served to it at once, also where they may be marked."""
    clock = ManualClock()
    now = clock.now_ms()
    gate = gate_of(Host(now - OLD_MS, now - BOUND_MS - 1, now - BOUND_MS), clock, on_stale)
    assert through_of(gate.enter()) == now - BOUND_MS


@pytest.mark.parametrize("then", [Then.fail, Then.mark])
def test_rows_that_stay_old_are_served_after_a_wait_only_if_they_may_be_marked(then: Then) -> None:
    clock = ManualClock()
    host = Host(clock.now_ms())
    gate = gate_of(host, clock, OnStale.wait, then)
    assert through_of(gate.enter()) == clock.now_ms()
    clock.advance(OLD_MS)
    if then == Then.mark:
        assert through_of(gate.enter()) == clock.now_ms() - OLD_MS
    else:
        with pytest.raises(Unreachable, match=r"users is not good enough within 0\.2 s.*60\.0 s behind"):
            gate.enter()
    host.through_ms = [clock.now_ms() - OLD_MS, clock.now_ms()]
    assert through_of(gate.enter()) == clock.now_ms()

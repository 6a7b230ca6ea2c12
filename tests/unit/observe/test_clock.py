"""The brokers' time, whatever becomes of the host's clock."""

import time

import pytest

from enrich.tally import Node, NodeKind, Origins, Report, Tally, minute_of
from enrich.verdict.ways import Hop, Way
from observe_service.clock import Clock
from observe_service.verdicts.observation import Observation
from observe_service.verdicts.standing import Sla

ENTRY = Node("p", NodeKind.ingest, "plays")


@pytest.mark.parametrize("step_s", [3_600, -3_600])
def test_a_step_of_the_hosts_clock_makes_no_minute_over(monkeypatch: pytest.MonkeyPatch, step_s: int) -> None:
    clock, now_ms, read = Clock(), time.time_ns() // 10**6, time.time_ns
    clock.stamped(now_ms)
    minute = minute_of(now_ms)
    observed = Observation([Way((Hop(ENTRY),), "plays.raw")], 60_000, Sla(1_000))
    observed.begin(minute)
    monkeypatch.setattr(time, "time_ns", lambda: read() + step_s * 10**9)
    assert abs(clock.now_ms() - now_ms) < 60_000
    observed.tick(clock.now_ms(), clock.now_ms())  # all reports until now are read, says a look at the ends
    some = Origins.of_ranges([("plays.raw", 0, 0, 9)])
    observed.take(Report(ENTRY, "e", 1, 0, [Tally(minute=minute, came=some, went=some)]), now_ms)
    observed.take(Report(ENTRY, "e", 2, 0), now_ms + 120_000)
    (found,) = [each for each in observed.tick(now_ms + 130_000, now_ms + 130_000) if each.minute == minute]
    assert (found.state, found.came, found.late) == ("settled", 10, 0)

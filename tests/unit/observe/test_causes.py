"""When a cause for alarm begins and ends."""

from dataclasses import replace

import numpy as np
import pytest

from enrich.tally.lags import Lag
from enrich.verdict import MinuteVerdict, State, Up
from enrich.verdict.minute import HopVerdict
from observe_service.alarms.causes import MinuteCauses, held_up


def verdict(minute: int, lost: int) -> MinuteVerdict:
    hop = HopVerdict("stage", "prepare", came=100, went=100 - lost, lost=lost)
    return MinuteVerdict("plays > prepare", minute, State.SETTLED, Up.UP, [hop])


def test_a_loss_that_is_found_late_is_a_cause_like_any_other() -> None:
    causes = MinuteCauses("plays > prepare", 0.0, 1_000)
    for minute in (100, *range(102, 120)):
        causes.take(verdict(minute, 0))
    causes.take(verdict(101, 7))
    assert [cause.key for cause in causes.now()] == ["loss/plays > prepare"]
    causes.take(verdict(101, 7))  # the same once more
    for minute in range(120, 124):
        causes.take(verdict(minute, 0))
    causes.take(verdict(101, 7))
    assert [*causes.now()]
    causes.take(verdict(124, 0))
    assert not [*causes.now()]
    causes.take(verdict(101, 8))
    assert [*causes.now()]


def test_a_loss_is_over_after_five_settled_minutes_and_not_after_minutes_of_which_nothing_is_known() -> None:
    causes = MinuteCauses("plays > prepare", 0.0, 1_000)
    causes.take(verdict(100, 7))
    for minute in range(101, 110):
        causes.take(replace(verdict(minute, 0), state=State.UNKNOWN))
    for minute in range(110, 114):
        causes.take(verdict(minute, 0))
        causes.take(verdict(minute, 0))  # it is written again, since something waits no more
        assert [*causes.now()]
    causes.take(verdict(114, 0))
    assert not [*causes.now()]


def test_a_lag_is_not_over_because_more_is_lost() -> None:
    def down(minute: int, lost: int) -> MinuteVerdict:
        hop = HopVerdict("stage", "prepare", came=100, went=60, lost=lost, waiting=40 - lost)
        return MinuteVerdict("plays > prepare", minute, State.SETTLED, Up.DOWN, [hop], why="it is late")

    causes = MinuteCauses("plays > prepare", 0.01, 1_000)
    causes.take(down(100, 0))
    for minute in range(101, 120):
        causes.take(down(minute, 2))
    assert [cause.key for cause in causes.now()] == ["lag/plays > prepare", "loss/plays > prepare"]


@pytest.mark.parametrize(
    ("lost", "waiting", "lag_ms", "texts"),
    [
        # It is down by loss alone, and by less than there is an alarm for.
        (1, 0, 5, []),
        (1, 400, 5, []),
        # It would be down without the loss, too. Of the time it knows as much as a histogram does.
        (1, 0, 3_000, ["p95 end to end was 2.98 s"]),
        (1, 600, 5, ["600 of 9,999 events were not delivered"]),
        (0, 0, 3_000, ["p95 end to end was 3 s"]),
        (200, 0, 3_000, ["200 of 10,000 events of a minute are lost (2.00%)"]),
    ],
)
def test_a_minute_that_is_down_by_loss_alone_is_no_cause_of_lag(
    lost: int, waiting: int, lag_ms: int, texts: list[str]
) -> None:
    went = 10_000 - lost - waiting
    times = np.full(went, 10**12)
    lag = Lag.of(times, times, 10**12 + lag_ms)
    hop = HopVerdict("expel", "acme", came=10_000, went=went, lost=lost, waiting=waiting, lag=lag)
    why = f"{lost:,} of 10,000 events were lost" if lost else f"p95 end to end was {lag_ms / 1000:,.3g} s"
    causes = MinuteCauses("acme", 0.01, 1_000)
    causes.take(MinuteVerdict("acme", 100, State.SETTLED, Up.DOWN, [hop], why=why))
    assert [cause.text.removeprefix("acme: ") for cause in causes.now()] == texts


def test_a_lag_ends_after_five_minutes_in_a_row_whatever_else_those_have() -> None:
    def verdict_on(minute: int, waiting: int, lost: int = 0) -> MinuteVerdict:
        hop = HopVerdict("stage", "prepare", came=100, went=100 - waiting - lost, lost=lost, waiting=waiting)
        up = Up.DOWN if waiting or lost else Up.UP
        return MinuteVerdict("plays > prepare", minute, State.SETTLED, up, [hop], why="it is late" if waiting else None)

    causes = MinuteCauses("plays > prepare", 0.01, 1_000)
    causes.take(verdict_on(100, 40))
    for minute in range(101, 105):
        causes.take(verdict_on(minute, 0))
    causes.take(verdict_on(105, 40, lost=2))
    for minute in range(106, 110):
        causes.take(verdict_on(minute, 0))
        assert "lag/plays > prepare" in [cause.key for cause in causes.now()], minute
    causes.take(verdict_on(110, 0))
    assert not [*causes.now()]


def test_minutes_that_wait_long_are_a_cause_until_they_wait_for_half_as_long() -> None:
    way = "plays > prepare"
    key = f"verdicts/{way}"

    def said(minute: int, now: int, *on: str, since: int = 0) -> list[str]:
        return [cause.text for cause in held_up({way: (minute, "stage prepare is behind")}, now, 3, since, on)]

    assert said(100, 113) == []
    assert said(100, 114) == [f"{way}: 1970-01-01T01:40Z is not judged yet: stage prepare is behind"]
    assert said(100, 113, key) != []
    assert said(105, 114, key) != []  # it is as far behind as before, or nearly so
    assert said(106, 114, key) == []
    assert said(105, 114) == []
    # Before, nobody could hear the node.
    assert said(100, 160, since=150) == []
    assert said(100, 161, since=150) != []
    assert said(100, 151, key, since=150) != []

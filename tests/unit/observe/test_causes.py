"""When a cause for alarm begins and ends."""

from enrich.verdict import MinuteVerdict, State, Up
from enrich.verdict.minute import HopVerdict
from observe_service.alarms.causes import MinuteCauses


def verdict(minute: int, lost: int) -> MinuteVerdict:
    hop = HopVerdict("stage", "prepare", came=100, went=100 - lost, lost=lost)
    return MinuteVerdict("plays > prepare", minute, State.SETTLED, Up.UP, [hop])


def test_a_loss_that_is_found_late_is_a_cause_like_any_other() -> None:
    causes = MinuteCauses("plays > prepare", 0.0)
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

"""What happens again and again is a line a minute in the log, and nothing of it is left out."""

from enrich.service.summed import Summed
from tests.support.clock import ManualClock


def test_the_first_is_told_at_once_and_what_follows_once_a_minute():
    clock = ManualClock()
    summed = Summed[str](lambda: clock.now_ms() / 1000)
    assert summed.add({"a": 1, "b": 0}) == {"a": 1}
    assert summed.add({"a": 2}) == {}
    clock.advance(59_000)
    assert summed.add({"b": 3}) == {}
    clock.advance(1_000)
    assert summed.due() == {"a": 2, "b": 3}
    assert summed.due() == {}
    clock.advance(60_000)
    assert summed.add({"a": 1}) == {"a": 1}


def test_what_is_left_when_nothing_more_comes_is_told_then():
    summed = Summed[str]()
    assert summed.add({"a": 1}) == {"a": 1}
    assert summed.add({"a": 2, "b": 3}) == {}
    assert summed.rest() == {"a": 2, "b": 3}
    assert summed.rest() == {}

"""Which event Spark cannot read the time of."""

from dataclasses import dataclass

import pytest

from enrich.stage.progress import absurd_times
from enrich.stage.progress.absurd_times import absurd_time, may_be_of_time

LARGEST = 9_223_372_036_854_775


@dataclass
class Event:
    at: int
    time_ms: int
    in_partition: int = 0

    def partition(self):
        return self.in_partition

    def offset(self):
        return self.at

    def timestamp(self):
        return 1, self.time_ms


def reading(topics):
    """The events of topics from given offsets on, one a batch."""

    def read(topic, starts):
        for event in topics[topic]:
            if event.at >= starts[event.in_partition]:
                yield [event]

    return read


@pytest.mark.parametrize("time_ms", [10**17, LARGEST + 1, -LARGEST - 1, 2**63 - 1, -(2**63)])
def test_the_first_event_with_a_time_beyond_sparks_is_named(time_ms):
    events = [Event(4, 10**17), Event(5, 1_000), Event(6, LARGEST), Event(7, -1), Event(8, 5, 1), Event(9, time_ms, 1)]
    found = absurd_time({"a": {0: 0}, "in": {0: 5, 1: 0}}, reading({"a": [Event(1, 7)], "in": events}))
    assert found is not None
    assert found.where == "topic in, partition 1, offset 9"
    assert str(time_ms) in found.what
    assert "profile: realtime" in str(found.next_step)


def test_if_there_is_none_it_was_something_else(monkeypatch):
    events = {"in": [Event(number, 1_000) for number in range(5)]}
    assert absurd_time({"in": {0: 0}}, reading(events)) is None
    events["in"].append(Event(5, 10**17))
    monkeypatch.setattr(absurd_times, "_PATIENCE_S", 0)
    assert absurd_time({"in": {0: 0}}, reading(events)) is None, "nobody waits for hours"


def test_only_sparks_own_words_are_a_reason_to_look():
    assert may_be_of_time("Job aborted: ... java.lang.ArithmeticException: long overflow\n\tat java.base/")
    assert not may_be_of_time("Job aborted: java.lang.ArithmeticException: / by zero")

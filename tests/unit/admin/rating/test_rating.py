"""What a rating makes of a pipeline that takes nothing: at once, or at a high rate only."""

import math
import time
from collections.abc import Sequence
from http.client import HTTPException
from typing import cast

import pytest

from enrich.admin.rating import generating, rating
from enrich.admin.rating.arriving import Arrivals
from enrich.admin.rating.climbing import Void
from enrich.admin.rating.generating import Rest
from enrich.admin.rating.rating import Condition, Rater
from enrich.admin.rating.samples import Samples
from enrich.base.errors import Unreachable
from enrich.tally import Histogram


class Pipeline:
    """Events leave as soon as they are taken. Too many in a request, and it takes none of them."""

    def __init__(self, most: int, lag_ms: float = 1.0, begins_in_s: float = 0.0) -> None:
        """`begins_in_s`: what comes before that leaves then."""
        self._most = most
        self._lag_ms = lag_ms
        self._begins_ms = time.time_ns() // 10**6 + round(begins_in_s * 1000)
        self._left: list[int] = []

    def send(self, events: Sequence[bytes], time_ms: int) -> int:  # noqa: ARG002 - the signature of a target
        if len(events) > self._most:
            raise HTTPException("the answer was 429 Too Many Requests")
        self._left += [max(self._begins_ms, time.time_ns() // 10**6)] * len(events)
        return len(events)

    def close(self) -> Rest:
        return Rest()

    def between(self, from_ms: int, until_ms: int) -> Histogram:
        until_ms = min(until_ms, time.time_ns() // 10**6)  # of what is to come nobody knows
        return Histogram.of([self._lag_ms] * sum(from_ms <= at < until_ms for at in self._left))


def rater(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Rater:
    monkeypatch.setattr(generating, "LATE_S", math.inf)  # the machine of the tests is not rated
    monkeypatch.setattr(rating, "_SAID_S", 0.0)
    monkeypatch.setattr(rating, "_MOST_QUIET_S", 0.0)
    condition = Condition(p95_ms=1_000, step_s=0.1, first=500, most=100_000)
    samples = Samples([b"{}"], None, "x")
    return Rater(cast(Arrivals, pipeline), condition, samples, lambda: pipeline, 10_000, lambda _: None)


def test_a_rate_at_which_nothing_is_taken_is_one_that_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rater(Pipeline(most=30), monkeypatch).run()
    assert found.is_bounded
    assert 500 <= found.rating < 2_000
    refused = [step.breaks for step in found.steps if not step.taken]
    assert refused
    assert set(refused) == {"100.0% were not taken: the answer was 429 Too Many Requests"}


def test_a_pipeline_that_takes_nothing_at_all_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match="no event was taken: the answer was 429 Too Many Requests"):
        rater(Pipeline(most=0), monkeypatch).run()


def test_a_run_in_which_events_leave_before_they_are_due_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this host is ahead, so that all lags would be 0."""
    with pytest.raises(Void, match="100% of the events at 500 events/s left before they were due"):
        rater(Pipeline(most=10_000, lag_ms=-5_000.0), monkeypatch).run()


def test_a_pipeline_that_has_just_been_started_is_rated_once_it_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited for it to begin says nothing of how many events leave, nor does that none leaves yet."""
    one = rater(Pipeline(most=30, begins_in_s=1.0), monkeypatch)
    monkeypatch.setattr(rating, "_QUIET_S", 0.2)
    monkeypatch.setattr(rating, "_MOST_QUIET_S", 60.0)
    assert one.run().rating >= 500

"""How late events were: quantiles of the last minute, and buckets that add up over stages."""

import numpy as np
from prometheus_client.core import Metric

from enrich.stage.measure.lags import BOUNDS_S, StageLags, buckets
from enrich.stage.measure.recent import Recent
from enrich.tally import Histogram
from enrich.tally.lags import Lag


class ByHand:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def lag_of(ms: int, events: int) -> Lag:
    """Events that were so late when they came, and took 10 ms."""
    came = np.full(events, 1_000_000, np.int64)
    return Lag.of(came - ms, came, 1_000_010)


def test_a_batch_counts_for_as_much_as_it_has_events() -> None:
    recent = Recent(ByHand())
    recent.add(lag_of(1, 900))
    recent.add(lag_of(60, 100))
    came = recent.lag().came
    assert [came.quantile(share) for share in (0.5, 0.89, 0.95)] == [1, 1, 60]


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    clock = ByHand()
    recent = Recent(clock)
    recent.add(lag_of(60, 1_000))
    clock.now = 30.0
    recent.add(lag_of(1, 1))
    clock.now = 61.0
    assert recent.lag() == lag_of(1, 1)
    clock.now = 91.0
    assert not recent.lag()


def test_the_lag_of_events_is_the_same_whether_they_came_together_or_not() -> None:
    times, came = np.array([10, 20, 30]), np.array([50, 50, 60])
    lag = Lag.of(times, came, 100)
    assert lag == Lag(Histogram.of([40, 30, 30]), Histogram.of([90, 80, 70]), Histogram.of([50, 50, 40]))
    assert lag_of(5, 3).took == Histogram.of([10, 10, 10])
    assert Lag.of(times[:0], came[:0], 100) == Lag()


def samples(metrics: "list[Metric]") -> dict[tuple[str, str | None], float]:
    return {(each.name, each.labels.get("le")): each.value for family in metrics for each in family.samples}


def test_buckets_and_sums_of_stages_add_up() -> None:
    stages = StageLags(), StageLags(), StageLags()
    for stage, lag in zip(stages, (lag_of(30, 7), lag_of(40_000, 3)), strict=False):
        stage.add(lag)
        stages[2].add(lag)
    one, other, both = (samples([*stage.metrics({})]) for stage in stages)
    assert both == {key: one[key] + other[key] for key in both}
    assert both["enrich_stage_lag_in_seconds_bucket", "0.05"] == 7
    assert both["enrich_stage_lag_in_seconds_bucket", "30"] == 7
    assert both["enrich_stage_lag_in_seconds_count", None] == 10
    assert both["enrich_stage_process_seconds_bucket", "0.01"] == 10
    assert abs(both["enrich_stage_process_seconds_sum", None] - 0.1) < 1e-9


def test_every_bound_counts_what_is_not_above_it() -> None:
    for bound, (text, count) in zip(BOUNDS_S, buckets(Histogram.of([round(1000 * b) for b in BOUNDS_S])), strict=False):
        assert (float(text), count) == (bound, BOUNDS_S.index(bound) + 1)


def test_a_stage_without_events_has_empty_histograms_and_no_quantiles() -> None:
    stage = StageLags()
    stage.add(Lag())
    assert set(samples([*stage.metrics({})]).values()) == {0}
    assert stage.quantiles()["lag_in_s"] == {"p50": None, "p95": None, "p99": None}
    stage.add(lag_of(30, 1))
    assert stage.quantiles()["lag_out_s"] == {"p50": 0.04, "p95": 0.04, "p99": 0.04}

"""Histograms add up, and their quantiles are near the true ones."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from enrich.tally import Histogram, Lags
from enrich.tally.histogram import BUCKETS, MOST_MS, RELATIVE_ERROR, bounds
from tests.support.observe.tallies import durations, histograms

times = st.lists(st.tuples(st.integers(-200_000, 200_000), st.integers(0, 10**6), st.booleans()), max_size=30)


@given(histograms, histograms, histograms)
def test_adding_has_no_order(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Histogram() == a


@given(durations, durations)
def test_the_sum_is_the_histogram_of_all(one, other):
    whole = Histogram.of(np.array([*one, *other], np.int64))
    assert Histogram.of(np.array(one, np.int64)) + Histogram.of(np.array(other, np.int64)) == whole
    assert whole.count == len(one) + len(other)
    assert whole.clamped == sum(each < 0 for each in [*one, *other])


@given(st.lists(st.integers(0, MOST_MS), max_size=50), st.integers(0, 60))
def test_the_longest_are_those_of_the_longest(values, number):
    chosen = sorted(values)[max(0, len(values) - number) :]
    assert Histogram.of(np.array(values, np.int64)).longest(number) == Histogram.of(np.array(chosen, np.int64))


@given(st.lists(st.integers(-10, 10**9), min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_off_by_less_than_is_promised(values, share):
    exact = sorted(max(0, value) for value in values)[max(1, math.ceil(share * len(values))) - 1]
    found = Histogram.of(np.array(values, np.int64)).quantile(share)
    assert found is not None
    assert abs(found - exact) <= RELATIVE_ERROR * exact
    if exact < 64:
        assert found == exact


@given(st.integers(0, MOST_MS))
def test_each_duration_is_in_one_bucket(value):
    low, high = bounds(Histogram.of([value]).start)
    assert low <= value <= high


def test_of_more_minutes_than_anybody_has_only_the_usual_ones_are_told_apart():
    times = np.r_[np.arange(10_000) * 60_000, np.full(50, 77 * 60_000)]
    lags = Lags.of(times, times + 5, times + 7)
    assert len(lags.by_minute) == 501
    assert lags.of_minute(77).went.count == 51
    assert sum(lag.took.count for lag in lags.by_minute.values()) == 10_050


def test_buckets_follow_each_other_without_holes():
    assert bounds(0) == (0, 0)
    assert bounds(BUCKETS - 1)[1] == MOST_MS
    assert all(bounds(bucket)[1] + 1 == bounds(bucket + 1)[0] for bucket in range(BUCKETS - 1))


def test_what_never_ends_is_late_without_end():
    ten = Histogram.of([1] * 10)
    assert ten.quantile(0.95) == 1
    assert ten.quantile(0.95, infinite=1) is None
    assert Histogram().quantile(0.5) is None


def test_how_many_are_above():
    assert Histogram.of([1, 5, 6, 1000]).above(5) == 2


@given(times, times)
def test_lags_are_those_of_each_minute_alone_and_add_up(one, other):
    def of(rows: list[tuple[int, int, bool]]) -> Lags:
        return Lags.of(
            np.array([time for time, _, _ in rows], np.int64),
            np.array([time + lag for time, lag, _ in rows], np.int64),
            np.array([time + 2 * lag for time, lag, _ in rows], np.int64),
            np.array([known for _, _, known in rows], np.bool_),
        )

    whole = of([*one, *other])
    assert of(one) + of(other) == whole
    for minute, lag in whole.by_minute.items():
        mine = [lag for time, lag, known in [*one, *other] if (time // 60_000 if known else None) == minute]
        assert lag.took == Histogram.of(np.array(mine, np.int64))
        assert lag.came == (Histogram() if minute is None else lag.took)
    assert sum(lag.took.count for lag in whole.by_minute.values()) == len(one) + len(other)

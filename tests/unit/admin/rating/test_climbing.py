"""Which rates are tried, and what a generator that is late makes of it."""

import pytest

from enrich.admin.rating.climbing import CLOSE, Step, Void, climb


def of_capacity(capacity: float, late_share: float = 0.0):
    def attempt(rate: float) -> Step:
        breaks = "too much" if rate > capacity else None
        return Step(rate, rate, min(rate, capacity), 100.0, late_share, breaks)

    return attempt


@pytest.mark.parametrize("capacity", [100.0, 777.0, 12_345.0])
def test_the_rating_is_just_below_what_breaks(capacity):
    found = climb(100, 1_000_000, of_capacity(capacity))
    assert found.rating <= capacity < found.rating * CLOSE
    assert found.is_bounded
    assert len(found.steps) < 25
    assert [step.rate for step in found.steps[:2]] == [100, 200]


def test_nothing_holds_and_all_holds():
    nothing = climb(100, 1_000, of_capacity(0.5))
    assert (nothing.rating, nothing.steps[-1].rate) == (0, 1)
    found = climb(100, 1_000, of_capacity(10_000))
    assert (found.rating, found.is_bounded) == (1_000, False)
    assert max(step.rate for step in found.steps) == 1_000
    assert [step.rate for step in climb(500, 100, of_capacity(10_000)).steps] == [100]


@pytest.mark.parametrize("capacity", [1.0, 7.0, 99.0])
def test_a_first_rate_that_is_too_high_says_nothing_of_what_is_below_it(capacity):
    found = climb(100, 1_000, of_capacity(capacity))
    assert found.rating <= capacity < found.rating * CLOSE
    assert found.is_bounded
    assert [step.rate for step in found.steps[:2]] == [100, 50]


def test_a_late_generator_makes_the_run_void_unless_the_pipeline_broke_anyway():
    with pytest.raises(Void):
        climb(100, 1_000, of_capacity(500, late_share=0.02))

    def held_up_when_it_breaks(rate: float) -> Step:
        return Step(rate, rate, rate, 1.0, 0.5 if rate > 500 else 0.0, "too much" if rate > 500 else None)

    assert 475 < climb(100, 1_000, held_up_when_it_breaks).rating <= 500

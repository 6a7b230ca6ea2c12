"""Quantiles of the last minute, made of the quantiles of batches."""

import pytest

from enrich.stage.measure.recent import Recent


class ByHand:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_quantiles_of_one_batch_come_back_and_the_largest_value_exactly() -> None:
    recent = Recent(ByHand())
    recent.add([0.0, 0.5, 1.0], [0.0, 5.0, 10.0], 100)
    found = recent.quantiles([0.5, 0.95, 1.0])
    assert found == {0.5: pytest.approx(5, abs=0.2), 0.95: pytest.approx(9.5, abs=0.2), 1.0: 10.0}


def test_a_batch_counts_for_as_much_as_it_has_events() -> None:
    recent = Recent(ByHand())
    recent.add([0.0, 1.0], [1.0, 1.0], 900)
    recent.add([0.0, 1.0], [60.0, 60.0], 100)
    assert recent.quantiles([0.5, 0.89, 0.95]) == {0.5: 1.0, 0.89: 1.0, 0.95: 60.0}


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    clock = ByHand()
    recent = Recent(clock)
    recent.add([0.0, 1.0], [60.0, 60.0], 1_000)
    clock.now = 30.0
    recent.add([0.0, 1.0], [1.0, 1.0], 1)
    clock.now = 61.0
    assert recent.quantiles([0.5, 1.0]) == {0.5: 1.0, 1.0: 1.0}
    clock.now = 91.0
    assert recent.quantiles([0.5]) == {}

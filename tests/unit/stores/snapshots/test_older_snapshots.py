"""Which snapshots make way for newer ones, where hosts that export do not agree about the time."""

import pytest

from stores.snapshots import ahead_of, remove_older

NOW = 1_796_083_200_000  # 2026-12-01T00:00:00Z
OWN = "20261201T000000.000Z-16051ed5-0.9"


@pytest.fixture
def folder(tmp_path):
    def of(*names):
        for name in names:
            (tmp_path / name).mkdir()
        return tmp_path

    return of


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_snapshot_that_was_just_written_stays_beside_one_of_a_clock_that_was_ahead(folder):
    ahead, older = "20270101T000000.000Z-16051ed5-0.7", "20261130T000000.000Z-16051ed5-0.8"
    here = folder(ahead, OWN, older)
    found = ahead_of(here, NOW)
    assert found == [here / ahead]
    assert remove_older(here, 1, own=here / OWN, ahead=found) == [here / older]
    assert names(here) == sorted([ahead, OWN])


def test_one_that_another_host_wrote_meanwhile_is_counted_and_the_own_one_stays(folder):
    other, older = "20261201T000459.999Z-abababab-0.1", "20261130T000000.000Z-16051ed5-0.8"
    here = folder(other, OWN, older)
    assert ahead_of(here, NOW) == []
    assert remove_older(here, 1, own=here / OWN) == [here / older]
    assert names(here) == sorted([other, OWN])


def test_a_host_whose_clock_is_behind_removes_nothing_of_the_others(folder):
    others = ["20261231T000000.000Z-abababab-0.2", "20261231T010000.000Z-abababab-0.3"]
    here = folder(*others, OWN)
    found = ahead_of(here, NOW)
    assert found == [here / name for name in reversed(others)]
    assert remove_older(here, 1, own=here / OWN, ahead=found) == []
    assert names(here) == sorted([*others, OWN])

"""How far history reaches after a table was behind its topic."""

import pytest

from enrich.host.claims.gaps import CLOCKS_DIFFER_MS, Stretch, floors_over
from stores.table import HistoryFloor, RowVersion, row_versions

NOW = 1_700_000_000_000
HOUR = 3_600_000
YOUNG, OLD = NOW - HOUR // 2, NOW - 2 * HOUR


def floors(times, *, end, is_at_end=True, lag_ms=HOUR):
    """`times`: offset -> timestamp of the records that were read of partition 0."""
    versions = row_versions(RowVersion(b"k", 0, offset, time, b"") for offset, time in times.items())
    return floors_over({0: Stretch(end, is_at_end)}, versions, lag_ms, NOW)


def test_history_begins_where_the_reader_is_at_the_end():
    assert floors({7: YOUNG}, end=8, lag_ms=0) == {0: HistoryFloor(8, NOW)}


def test_where_more_is_to_come_not_even_the_place_of_the_reader_can_be_asked_for():
    assert floors({7: YOUNG}, end=8, is_at_end=False, lag_ms=0) == {0: HistoryFloor(9, NOW)}
    assert floors({}, end=8, is_at_end=False) == {0: HistoryFloor(9, NOW - HOUR + CLOCKS_DIFFER_MS)}


def test_history_begins_at_the_first_record_that_the_compaction_lag_keeps():
    proven = NOW - HOUR + CLOCKS_DIFFER_MS
    assert floors({7: OLD, 8: YOUNG, 9: OLD}, end=10) == {0: HistoryFloor(8, proven)}
    assert floors({7: OLD, 8: proven}, end=10) == {0: HistoryFloor(10, proven)}


def test_nothing_is_missing_before_a_record_so_young_when_it_is_the_first():
    assert floors({7: YOUNG, 8: OLD}, end=10) == {}


def test_nothing_is_missing_where_nothing_is_left_that_could_have_replaced_it():
    assert floors({}, end=10) == {}


@pytest.mark.parametrize("lag_ms", [0, 1, 1_000, 30_000, CLOCKS_DIFFER_MS, HOUR])
def test_a_floor_is_never_later_than_what_was_read(lag_ms):
    assert floors({7: OLD}, end=8, lag_ms=lag_ms)[0].timestamp <= NOW


def test_records_of_a_clock_that_is_ahead_move_it_on_by_a_minute_at_most():
    assert floors({7: NOW + 500}, end=8, lag_ms=0)[0].timestamp == NOW + 500
    assert floors({7: NOW + HOUR}, end=8, lag_ms=0)[0].timestamp == NOW + CLOCKS_DIFFER_MS

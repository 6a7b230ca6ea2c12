"""From sorted versions to rows: what many versions of one key cost, and which of them hides which."""

import sys

import numpy as np
import pyarrow as pa
import pytest

from stores.rocks.layout import QUEUE, decode, parse_due
from stores.rocks.load import bulk_rows
from stores.rocks.load.bulk_rows import BulkRows
from tests.contract.stores.store_under_test import table
from tests.support.seed import random_source

RANDOM = random_source("many versions of one key")


def of_one_key(times, offsets=None):
    count = len(times)
    return pa.table(
        {
            "key": pa.array([b"hot"] * count, pa.large_binary()),
            "partition": pa.array(np.zeros(count, np.int32)),
            "offset": pa.array(np.arange(count) if offsets is None else offsets),
            "timestamp": pa.array(times, pa.int64()),
            "value": pa.array([b"{}"] * count, pa.large_binary()),
        }
    )


def rows_of(versions, now=10**15):
    rows = BulkRows(1, table(history_ms=3_600_000), now, given_floors={}, floors={})
    assert len(list(rows.latest(versions))) == 1
    return rows


def hidden_by(rows):
    """Of each version that goes some day: its offset, and the offset of the one that hides it."""
    return {
        int.from_bytes(key[-8:], "big"): parse_due(key, value).successor_offset
        for key, value in rows.history.items()
        if key[:1] == QUEUE
    }


def steps(versions):
    """How many lines of the module run: time depends on what else the machine does."""
    count = 0

    def counted(frame, event, _):
        nonlocal count
        count += event == "line"
        return counted

    def entered(frame, event, argument):
        return counted(frame, event, argument) if frame.f_code.co_filename == bulk_rows.__file__ else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        rows_of(versions)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("order", ["in order", "backwards", "at random"])
def test_sixteen_times_as_many_versions_of_one_key_cost_about_sixteen_times_as_much(order):
    def versions(count):
        times = {"in order": list(range(count)), "backwards": list(range(count, 0, -1))}
        return of_one_key(times.get(order) or [RANDOM.randrange(count) for _ in range(count)])

    assert steps(versions(16_000)) < 20 * steps(versions(1_000))


def test_a_version_is_hidden_by_the_first_later_one_whose_time_is_not_before_its_own():
    for _ in range(50):
        count = RANDOM.randrange(2, 12)
        offsets = sorted(RANDOM.randrange(count) for _ in range(count))  # some of them twice
        time_of = {offset: RANDOM.randrange(6) for offset in offsets}
        found = hidden_by(rows_of(of_one_key([time_of[offset] for offset in offsets], offsets)))
        assert found == {
            one: later[0]
            for one in time_of
            if (later := [other for other in sorted(time_of) if other > one and time_of[other] >= time_of[one]])
        }


def test_a_key_in_several_partitions_is_one_row_and_counts_once():
    places = [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1), ("c", 2), ("d", 1), ("e", 0), ("e", 2)]
    versions = pa.table(
        {
            "key": pa.array([key.encode() for key, _ in places], pa.large_binary()),
            "partition": pa.array([partition for _, partition in places], pa.int32()),
            "offset": pa.array(range(len(places)), pa.int64()),
            "timestamp": pa.array(range(len(places)), pa.int64()),
            "value": pa.array([key.encode() for key, _ in places], pa.large_binary()),
        }
    )
    rows = BulkRows(1, table(), 10**15, given_floors={}, floors={})
    ((keys, values),) = rows.latest(versions)
    assert [key[-1:] for key in keys] == [b"a", b"b", b"c", b"d", b"e"]
    assert [[entry.payload for entry in decode(value)] for value in values] == [
        [key.encode()] * count for key, count in (("a", 2), ("b", 1), ("c", 3), ("d", 1), ("e", 2))
    ]
    assert (rows.rows, rows.split_keys) == (5, 3)

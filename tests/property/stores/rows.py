"""Versions of keys in two partitions, at any times, and the floors of their history."""

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from stores.table import HistoryFloor, RowVersion

Row = tuple[str, int, int, bool]
"""Key, partition, time, and whether it is a tombstone."""

_TIMES = st.integers(-1, 6)
FLOORS = st.dictionaries(st.sampled_from([0, 1]), st.builds(HistoryFloor, st.integers(0, 8), _TIMES))


def rows_of(keys: Sequence[str], most: int) -> "st.SearchStrategy[list[Any]]":
    row = st.tuples(st.sampled_from(keys), st.sampled_from([0, 0, 1]), _TIMES, st.booleans())
    return st.lists(row, max_size=most)


def as_versions(rows: Iterable[Row]) -> list[RowVersion]:
    ends = {0: 0, 1: 0}
    versions = []
    for key, partition, timestamp, is_tombstone in rows:
        value = None if is_tombstone else b'{"plan":"%d/%d"}' % (partition, ends[partition])
        versions.append(RowVersion(key.encode("latin-1"), partition, ends[partition], timestamp, value))
        ends[partition] += 1
    return versions


def ends_of(versions: Sequence[RowVersion]) -> dict[int, int]:
    return {p: max((v.offset + 1 for v in versions if v.partition == p), default=0) for p in (0, 1)}

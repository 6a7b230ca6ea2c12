"""Turns sorted row versions into the rows of a new table, in columns: no Python objects until a row is written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stores.answers import raised_over
from stores.protocol import KeyKind, TableSpec
from stores.rocks.digest import added, digest_of
from stores.rocks.layout import (
    HAS_HISTORY,
    LATEST,
    TOMBSTONE,
    UNORDERED,
    Entry,
    encode,
    encode_columns,
    headers_of,
    history_key,
    prefix,
    queue_row,
    tombstone_rows,
)
from stores.table import HistoryFloor

_ROWS_AT_A_TIME = 1 << 16
_NO_FLOOR = HistoryFloor(0, 0)

Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class BulkRows:
    """Collects the table's counts, digest and floors while its rows pass in sorted ranges."""

    table_id: int
    spec: TableSpec
    now: int
    given_floors: Mapping[int, HistoryFloor]
    floors: dict[int, HistoryFloor]
    """The given floors, raised over every version that is dropped above them."""
    rows: int = 0
    split_keys: int = 0
    digest: int = 0
    lengths: set[int] = field(default_factory=set)
    history: dict[bytes, bytes] = field(default_factory=dict)
    """Rows of the history and of the queue of what is removed later. The caller writes them and then empties this."""

    def latest(self, versions: pa.Table) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Keys and values of the rows of the newest versions, in order, one piece at a time."""
        versions = versions.combine_chunks()
        keys, partition, offset, time = (
            versions.column("key").chunk(0),
            *(versions.column(name).to_numpy() for name in ("partition", "offset", "timestamp")),
        )
        same_key = pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        same_place = same_key & (partition[1:] == partition[:-1])
        newest = np.flatnonzero(np.append(~same_place, True))
        same_key_before = np.append(False, same_key[newest[:-1]])
        payloads = versions.column("value").chunk(0).take(pa.array(newest))
        headers = headers_of(partition[newest], offset[newest], time[newest], payloads, self.now)
        if same_place.any():
            headers["flags"] |= self._superseded(versions, same_place)[newest]
        start = 0
        while start < len(newest):
            end = min(start + _ROWS_AT_A_TIME, len(newest))
            while end < len(newest) and same_key_before[end]:
                end += 1  # the versions of one key in several partitions are one row
            piece = newest[start:end]
            raw_keys = keys.take(pa.array(piece)).to_pylist()
            self.digest = added(self.digest, digest_of(raw_keys, partition[piece], offset[piece]), 0)
            values = encode_columns(headers[start:end], payloads.slice(start, end - start))
            if not self.spec.history_ms:
                self._let_tombstones_go_later(raw_keys, headers[start:end])
            yield self._rows(raw_keys, values, np.flatnonzero(same_key_before[start:end]))
            start = end

    def _rows(
        self, keys: list[bytes], values: list[bytes], split: npt.NDArray[np.int64]
    ) -> tuple[list[bytes], list[bytes]]:
        """One row for each key. `split`: the indexes of versions with the same key as the one before."""
        if len(split):
            self.split_keys += 1 + int(np.count_nonzero(np.diff(split) > 1))
            starts = np.delete(np.arange(len(keys)), split).tolist()
            keys = [keys[start] for start in starts]
            values = [b"".join(values[a:b]) for a, b in pairwise([*starts, len(values)])]
        self.rows += len(keys)
        if self.spec.key is KeyKind.CIDR:
            self.lengths.update(key[0] for key in keys)
        latest = prefix(LATEST, self.table_id)
        return [latest + key for key in keys], values

    def _superseded(self, versions: pa.Table, same_place: Flags) -> npt.NDArray[np.uint8]:
        """Drops or keeps the versions that are followed by one of the same key and partition.

        Returns the resulting flags of the newest versions.
        """
        partition, offset, time = (versions.column(name).to_numpy() for name in ("partition", "offset", "timestamp"))
        old = np.flatnonzero(same_place)
        old = old[offset[old] != offset[old + 1]]  # the same record twice
        successor = old + 1
        is_hidden = time[old] <= time[successor]
        floor_offset, floor_time = (
            np.array([floor[field] for floor in (self.given_floors.get(p, _NO_FLOOR) for p in partition[old].tolist())])
            for field in (0, 1)
        )
        if not len(old):
            return np.zeros(len(same_place) + 1, np.uint8)
        is_gone = is_hidden & (offset[successor] < floor_offset) & (time[successor] <= floor_time)
        if self.spec.history_ms == 0:
            dropped = is_hidden & ~is_gone
            hiding = successor[dropped]
            raised_over(self.floors, partition[hiding], offset[hiding], time[hiding])
            is_gone |= dropped
        flags = np.zeros(len(same_place) + 1, np.uint8)
        ends = np.flatnonzero(np.append(~same_place, True))
        end_of_old = ends[np.searchsorted(ends, old)]
        flags[end_of_old[~is_hidden]] |= UNORDERED
        flags[end_of_old[~is_gone]] |= HAS_HISTORY
        kept = versions.take(pa.array(old[~is_gone])).to_pylist()
        for row, hiding in zip(kept, _hiding(time, same_place)[old[~is_gone]].tolist(), strict=True):
            self._keep(row)
            if hiding >= 0:
                self._let_go_later(row, int(offset[hiding]), int(time[hiding]))
        return flags

    def _keep(self, row: dict[str, Any]) -> None:
        entry = self._entry(row)
        self.history[history_key(self.table_id, row["key"], entry)] = encode([entry])

    def _let_go_later(self, row: dict[str, Any], offset: int, timestamp: int) -> None:
        successor = Entry(timestamp, row["partition"], offset, self.now, 0, b"")
        key, value = queue_row(self.table_id, row["key"], self._entry(row), successor, self.spec.history_ms)
        self.history[key] = value

    def _let_tombstones_go_later(self, keys: list[bytes], headers: npt.NDArray[np.void]) -> None:
        lone = np.flatnonzero(headers["flags"] & TOMBSTONE)
        lone_keys = [keys[at] for at in lone.tolist()]
        self.history.update(tombstone_rows(self.table_id, lone_keys, headers[lone], self.spec.tombstones_ms))

    def _entry(self, row: dict[str, Any]) -> Entry:
        flags = TOMBSTONE if row["value"] is None else 0
        return Entry(row["timestamp"], row["partition"], row["offset"], self.now, flags, row["value"] or b"")


def _hiding(time: npt.NDArray[np.int64], same_place: Flags) -> npt.NDArray[np.int64]:
    """For each version the index of the first later one of its key and partition that hides it, which is one whose time
    is not earlier. -1 if there is none.

    One pass from the end, however many versions a key has: for later versions the answer is known already.
    """
    hiding = np.where(same_place & (time[:-1] <= time[1:]), np.arange(1, len(time)), -1)
    places = hiding.tolist()
    for at in np.flatnonzero(same_place & (hiding < 0))[::-1].tolist():
        own, later = time[at], places[at + 1] if at + 1 < len(places) else -1
        while later >= 0 and time[later] < own:
            later = places[later] if later < len(places) else -1
        places[at] = later
    return np.array(places, np.int64)

"""Folds what is usual in a batch, in columns: new keys, and versions from the partition of the stored one whose time is
not earlier. The keys of which that is not so are left for `Folding`, which takes one record at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.answers import raised_over
from stores.protocol import TableSpec
from stores.rocks.database import Database
from stores.rocks.digest import added, digest_of
from stores.rocks.layout import (
    HAS_HISTORY,
    HEADERS,
    LATEST,
    STICKY,
    TOMBSTONE,
    UNORDERED,
    encode_columns,
    headers_of,
    prefix,
    superseded,
    tombstone_rows,
)
from stores.rocks.state import TableState
from stores.rocks.write.fold import StoredRows

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Headers = npt.NDArray[np.void]

T = TypeVar("T")

_NO_HEADER = bytes(HEADERS.itemsize)


@dataclass(slots=True)
class Columns:
    """Folds one batch of one table."""

    stored: Database
    table: TableState
    spec: TableSpec
    now: int
    puts: dict[bytes, bytes]
    deletes: list[bytes]

    def fold(self, versions: pa.RecordBatch) -> tuple[TableState, pa.RecordBatch, StoredRows]:
        """Fills `puts` and `deletes`. Returns the new state, the versions that are left, and what is stored of their
        keys."""
        came = _Came.of(versions, self.now)
        latest = prefix(LATEST, self.table.table_id)
        rows = self.stored.get_many([latest + key for key in came.keys])
        stored = _Stored.of(rows)
        is_usual = came.is_ordered & (~stored.is_there | stored.is_before(came.headers[came.first]))
        if self.spec.history_ms:
            is_usual &= came.first == came.last
        chosen = np.flatnonzero(is_usual)
        keys = _taken(came.keys, chosen)
        last = came.last[chosen]
        old, was_there = stored.headers[chosen], stored.is_there[chosen]
        new = came.headers[last]
        new["flags"] |= old["flags"] & STICKY
        floors = dict(self.table.floors)
        gone = _taken(keys, np.flatnonzero(was_there))
        if self.spec.history_ms:
            new["flags"][was_there] |= HAS_HISTORY
            before = [row for row in _taken(rows, chosen) if row is not None]
            hidden = superseded(self.table.table_id, gone, old[was_there], new[was_there])
            for (kept, queued, successor), row in zip(hidden, before, strict=True):
                self.puts[kept], self.puts[queued] = row, successor
        else:
            hiding = new[was_there | (came.first[chosen] != last)]
            raised_over(floors, hiding["partition"], hiding["offset"], hiding["timestamp"])
            self.deletes += [row for row, _ in self._when_they_go(gone, old[was_there])]
            self.puts.update(self._when_they_go(keys, new))
        values = encode_columns(new, versions.column("value").take(pa.array(last)))
        self.puts.update(zip([latest + key for key in keys], values, strict=True))
        table = replace(
            self.table,
            floors=floors,
            rows=self.table.rows + len(keys) - len(gone),
            digest=added(
                self.table.digest,
                plus=digest_of(keys, new["partition"], new["offset"]),
                minus=digest_of(gone, old["partition"][was_there], old["offset"][was_there]),
            ),
        )
        left = np.flatnonzero(~is_usual)
        of_left = dict(zip(_taken(came.keys, left), _taken(rows, left), strict=True))
        return table, versions.filter(pa.array(~is_usual[came.place])), of_left

    def _when_they_go(self, keys: Sequence[bytes], headers: Headers) -> Iterator[tuple[bytes, bytes]]:
        """Of those that are tombstones."""
        tombstones = np.flatnonzero(headers["flags"] & TOMBSTONE)
        some = _taken(keys, tombstones)
        return tombstone_rows(self.table.table_id, some, headers[tombstones], self.spec.tombstones_ms)


@dataclass(frozen=True, slots=True)
class _Came:
    """A batch by its keys."""

    keys: Sequence[bytes]
    place: Numbers
    """Of each version the index of its key."""
    headers: Headers
    first: Numbers
    """Of each key the index of its first version."""
    last: Numbers
    is_ordered: Flags
    """Of each key whether its versions are all of one partition, and no time is before the one before."""

    @classmethod
    def of(cls, versions: pa.RecordBatch, now: int) -> "_Came":
        encoded = versions.column("key").dictionary_encode()
        place, count, number = encoded.indices.to_numpy(), len(encoded.dictionary), len(versions)
        partition, offset, time = (versions.column(name).to_numpy() for name in ("partition", "offset", "timestamp"))
        headers = headers_of(partition, offset, time, versions.column("value"), now)
        first, last, is_ordered = np.empty(count, np.int64), np.empty(count, np.int64), np.ones(count, bool)
        first[place[::-1]] = np.arange(number)[::-1]  # of several assignments to one place the last one stays
        last[place] = np.arange(number)
        if count < number:
            order = np.argsort(place, kind="stable")
            again = np.flatnonzero(place[order[1:]] == place[order[:-1]])
            follows = _follows(headers[order[again]], headers[order[again + 1]])
            is_ordered[place[order[again[~follows]]]] = False
        return cls(encoded.dictionary.to_pylist(), place, headers, first, last, is_ordered)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is stored of some keys."""

    headers: Headers
    is_there: Flags
    is_single: Flags
    """Whether the key is in one partition only."""

    @classmethod
    def of(cls, rows: Sequence[bytes | None]) -> "_Stored":
        size = HEADERS.itemsize
        joined = b"".join([_NO_HEADER if row is None else row[:size] for row in rows])
        headers = np.frombuffer(joined, HEADERS)
        lengths = np.array([0 if row is None else len(row) for row in rows], np.int64)
        return cls(headers, lengths > 0, lengths == headers["size"].astype(np.int64) + size)

    def is_before(self, new: Headers) -> Flags:
        is_plain: Flags = self.is_single & ((self.headers["flags"] & UNORDERED) == 0)
        return is_plain & _follows(self.headers, new)


def _follows(old: Headers, new: Headers) -> Flags:
    is_same: Flags = old["partition"] == new["partition"]
    return is_same & (old["offset"] < new["offset"]) & (old["timestamp"] <= new["timestamp"])


def _taken(values: Sequence[T], chosen: Numbers) -> Sequence[T]:
    return values if len(chosen) == len(values) else [values[at] for at in chosen.tolist()]

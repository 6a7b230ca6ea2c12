"""A census of a topic's keys: a few numbers per record in columns, never the keys themselves.

Keys are identified by a 64-bit hash: with ten million keys two of them collide in one of three hundred thousand topics.
So callers must look at the keys themselves before they act on a result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from confluent_kafka import Message

_MOST_ROWS = 6_000_000
"""Above it only every second key is kept, then every fourth: shares stay right, and memory stays below 200 MiB."""

_ROW = np.dtype(
    [
        ("key", "<u8"),
        ("partition", "<i4"),
        ("offset", "<i8"),
        ("time", "<i8"),
        ("size", "<i4"),
        ("is_tombstone", "?"),
    ]
)
Rows = npt.NDArray[np.void]


def hashes_of(keys: Sequence[bytes | str | None] | pa.Array) -> npt.NDArray[np.uint64]:
    """A hash for each key. It is the same for the same key only within this process."""
    array = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.binary())
    return pl.Series(pl.from_arrow(array)).hash().to_numpy()


@dataclass(slots=True)
class Shares:
    """Counts of records and keys, estimated from a sample if there are many."""

    records: int
    keys: int
    live: int
    """Keys whose newest record is no tombstone."""
    superseded: int
    """Records that compaction would remove."""
    sampled: int
    """One of this many keys was counted."""


class Census:
    """Records must be added in offset order within each partition. Those without a key are only counted."""

    def __init__(self, *, whole: bool = False) -> None:
        """`whole`: keep every key, however much memory that takes."""
        self._pieces: list[Rows] = []
        self._kept = 0
        self._whole = whole
        self._every = 1
        self.records = 0
        self.without_key: list[tuple[int, int]] = []
        self.null_keys = 0

    def add(self, messages: Sequence[Message]) -> None:
        self.records += len(messages)
        keys = [message.key() for message in messages]
        rows = np.empty(len(messages), _ROW)
        rows["key"] = hashes_of(keys)
        rows["partition"] = [message.partition() for message in messages]
        rows["offset"] = [message.offset() for message in messages]
        rows["time"] = [message.timestamp()[1] for message in messages]
        values = [message.value() for message in messages]
        rows["size"] = [len(value or b"") + len(key or b"") for key, value in zip(keys, values, strict=True)]
        rows["is_tombstone"] = [value is None for value in values]
        if None in keys:
            has_key = np.array([key is not None for key in keys])
            if len(self.without_key) < 10:
                self.without_key += [(int(r["partition"]), int(r["offset"])) for r in rows[~has_key][:10]]
            self.null_keys += int((~has_key).sum())
            rows = rows[has_key]
        self._keep(rows if self._every == 1 else rows[rows["key"] % self._every == 0])

    def rows(self) -> Rows:
        """All rows so far, sorted by key, then in the order in which they were added."""
        joined = np.concatenate(self._pieces) if self._pieces else np.empty(0, _ROW)
        joined = joined[np.argsort(joined["key"], kind="stable")]
        self._pieces = [joined]
        return joined

    def shares(self) -> Shares:
        rows = self.rows()
        if not len(rows):
            return Shares(self.records, 0, 0, 0, self._every)
        newest = newest_of(rows)
        live = int((newest & ~rows["is_tombstone"]).sum())
        keys = len(np.unique(rows["key"]))
        superseded = int((~newest).sum())
        return Shares(self.records, keys * self._every, live * self._every, superseded * self._every, self._every)

    def split_keys(self) -> npt.NDArray[np.uint64]:
        """Hashes of keys that are in more than one partition."""
        rows = self.rows()
        same = rows["key"][1:] == rows["key"][:-1]
        elsewhere = rows["partition"][1:] != rows["partition"][:-1]
        return np.unique(rows["key"][1:][same & elsewhere])

    def _keep(self, rows: Rows) -> None:
        self._pieces.append(rows)
        self._kept += len(rows)
        while self._kept > _MOST_ROWS and not self._whole:
            self._every *= 2
            self._pieces = [piece[piece["key"] % self._every == 0] for piece in self._pieces]
            self._kept = sum(map(len, self._pieces))


def newest_of(
    rows: Rows, order: Sequence[str] = ("key", "partition", "offset"), same: int = 2
) -> npt.NDArray[np.bool_]:
    """Which rows are the last, in this order, of those whose first `same` columns are equal: by default the newest of
    their key and partition."""
    places = np.lexsort([rows[name] for name in reversed(order)])
    ordered = rows[places]
    last = np.ones(len(rows), np.bool_)
    last[:-1] = np.any([ordered[name][1:] != ordered[name][:-1] for name in order[:same]], axis=0)
    newest = np.empty(len(rows), np.bool_)
    newest[places] = last
    return newest

"""Sorts more row versions than memory holds: sorted runs in files, merged a range of keys at a time."""

import bisect
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from stores.rocks.errors import mapped_files

_ORDER = ["key", "partition", "offset"]
_SAMPLES_FOR_A_RANGE = 16


class SortedRuns:
    """Row versions come in any order and go out by (key, partition, offset); all of a key go out together."""

    def __init__(self, work: Path, budget: int) -> None:
        self._work = work
        self._budget = budget
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._runs: list[pa.Table] = []
        self._bytes = 0

    def add(self, versions: pa.RecordBatch) -> None:
        self._pending.append(versions)
        self._pending_bytes += versions.nbytes
        # Sorting holds a second copy, so a run is half of what may be held.
        if self._pending_bytes > self._budget // 2:
            self._spill()

    def merged(self) -> Iterator[pa.Table]:
        """Ranges of keys, each about half of the budget, in order."""
        if not self._runs:
            if self._pending_bytes:
                yield self._sorted_pending()
            return
        if self._pending:
            self._spill()
        splits = self._splits()
        starts = [0] * len(self._runs)
        for split in [*splits, None]:
            ends = [len(run) if split is None else _first_at_or_after(run, split) for run in self._runs]
            slices = [run.slice(a, b - a) for run, a, b in zip(self._runs, starts, ends, strict=True)]
            starts = ends
            together = pa.concat_tables(slices)
            if len(together):
                yield _sorted(together)

    def _sorted_pending(self) -> pa.Table:
        together = pa.Table.from_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        return _sorted(together)

    def _spill(self) -> None:
        table = self._sorted_pending().combine_chunks()
        path = self._work / f"run-{len(self._runs)}.arrow"
        with mapped_files(path), pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        self._bytes += table.nbytes
        # Mapped, not read: what has been merged can leave memory again.
        self._runs.append(pa.ipc.open_file(pa.memory_map(str(path))).read_all())

    def _splits(self) -> list[bytes]:
        """Keys that cut all runs together into ranges of about the same size."""
        ranges = max(1, -(-self._bytes * 2 // self._budget))
        samples: list[bytes] = []
        for run in self._runs:
            step = max(1, len(run) // (ranges * _SAMPLES_FOR_A_RANGE))
            samples += run.column("key").take(pa.array(range(0, len(run), step))).to_pylist()
        samples.sort()
        return sorted({samples[len(samples) * part // ranges] for part in range(1, ranges)})


def _sorted(versions: pa.Table) -> pa.Table:
    # polars sorts 1 M rows in 0.13 s, Arrow in 0.36 s (and takes them in 0.17 s).
    return pl.DataFrame(versions).sort(_ORDER).to_arrow()


def _first_at_or_after(run: pa.Table, key: bytes) -> int:
    keys = run.column("key")
    return bisect.bisect_left(range(len(run)), key, key=lambda index: keys[index].as_py())

"""External merge sort of row versions: sorted runs in files, merged one range of keys at a time."""

import bisect
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stores.rocks.errors import mapped_files

_ORDER = ["key", "partition", "offset"]
_PIECES_OF_A_RUN = 64
"""Pieces in a run. A range reads whole pieces of each run, so about one piece of each is read in excess."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Sorted versions in a file. Read a few pieces at a time: a mapped file would count as our memory in full."""

    path: Path
    first_keys: list[bytes]
    """The first key of each piece."""

    def between(self, begin: bytes | None, end: bytes | None) -> pa.Table:
        """The versions with `begin` <= key < `end`."""
        # The piece before may end with the same key that this piece begins with.
        first = 0 if begin is None else max(0, bisect.bisect_left(self.first_keys, begin) - 1)
        last = len(self.first_keys) if end is None else bisect.bisect_left(self.first_keys, end)
        with mapped_files(self.path), pa.OSFile(str(self.path)) as file:
            pieces = pa.ipc.open_file(file)
            batches = [pieces.get_batch(number) for number in range(first, last)]
            versions = pa.Table.from_batches(batches, pieces.schema)
        start = 0 if begin is None else _first_at_or_after(versions, begin)
        stop = len(versions) if end is None else _first_at_or_after(versions, end)
        return versions.slice(start, stop - start)


class SortedRuns:
    """Takes row versions in any order, returns them by (key, partition, offset). A key is never split over ranges."""

    def __init__(self, work: Path, budget: int) -> None:
        self._work = work
        self._budget = budget
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._runs: list[_Run] = []
        self._bytes = 0

    def add(self, versions: pa.RecordBatch) -> None:
        self._pending.append(versions)
        self._pending_bytes += versions.nbytes
        # Sorting makes a second copy, so a run may only have half of the budget.
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
        ranges = itertools.pairwise([None, *self._splits(), None])
        # A thread sorts the next range, without the GIL, while the caller works on this one.
        with ThreadPoolExecutor(1, thread_name_prefix="sort") as thread:
            coming = thread.submit(self._sorted_range, *next(ranges))
            for begin, end in ranges:
                versions = coming.result()
                coming = thread.submit(self._sorted_range, begin, end)
                if len(versions):
                    yield versions
                del versions  # so that no more than two are held
            if len(versions := coming.result()):
                yield versions

    def _sorted_range(self, begin: bytes | None, end: bytes | None) -> pa.Table:
        return _sorted(pa.concat_tables([run.between(begin, end) for run in self._runs]))

    def _sorted_pending(self) -> pa.Table:
        together = pa.Table.from_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        return _sorted(together)

    def _spill(self) -> None:
        table = self._sorted_pending().combine_chunks()
        path = self._work / f"run-{len(self._runs)}.arrow"
        rows = -(-len(table) // _PIECES_OF_A_RUN)
        with mapped_files(path), pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
        first_keys = table.column("key").take(pa.array(range(0, len(table), rows))).to_pylist()
        self._bytes += table.nbytes
        self._runs.append(_Run(path, first_keys))

    def _splits(self) -> list[bytes]:
        """Keys that divide all runs together into ranges of about the same size."""
        ranges = max(1, -(-self._bytes * 2 // self._budget))
        keys = sorted(key for run in self._runs for key in run.first_keys)
        return sorted({keys[len(keys) * part // ranges] for part in range(1, ranges)})


def _sorted(versions: pa.Table) -> pa.Table:
    # Imported here, so that readers need not load it: it takes 36 MiB and a thread.
    import polars as pl

    # polars sorts 1 M rows in 0.13 s, Arrow in 0.36 s (and takes them in 0.17 s). Its stable sort detects parts that
    # are in order already: sorted runs, one after the other, take two thirds of the time.
    return pl.DataFrame(versions).sort(_ORDER, maintain_order=True).to_arrow()


def _first_at_or_after(run: pa.Table, key: bytes) -> int:
    keys = run.column("key")
    return bisect.bisect_left(range(len(run)), key, key=lambda index: keys[index].as_py())

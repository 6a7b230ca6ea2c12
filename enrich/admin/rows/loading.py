"""Loads a file into a table's topic in one transaction: all of it, or nothing if it fails."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from enrich.admin.census import hashes_of
from enrich.admin.reading import Report, batches_of, silent
from enrich.admin.rows.files import KeyedRows, RowsFile
from enrich.admin.rows.target import Target
from enrich.admin.verify.verifying import scratch_directory
from enrich.base.errors import WouldLoseData
from enrich.base.folders import make_base_folder
from enrich.kafka.records import key_of
from enrich.kafka.writing.whole_transactions import WholeTransactions
from stores.rocks.database import Database, Sizes

_BEGIN, _END = b"k", b"l"
_TOMBSTONES = 20_000


@dataclass
class Counts:
    """What a load did, or would do."""

    rows: int = 0
    written: int = 0
    deleted: int = 0
    """Keys of the topic that are not in the file; with `replace` only."""
    repeated: int = 0
    """Rows whose key occurs again later in the file: the last row of a key counts."""
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def take(self, rows: KeyedRows) -> None:
        self.written += len(rows.keys)
        for reason, number in rows.rejected.items():
            self.rejected += number
            self.reasons[reason] = self.reasons.get(reason, 0) + number
        self.rows += len(rows.keys) + sum(rows.rejected.values())


class Load:
    """Loads one file into one table. `counted` only counts, `written` writes. With `replace`, `counted` comes first."""

    def __init__(self, target: Target, file: RowsFile, scratch: Path, report: Report = silent) -> None:
        self._target = target
        self._file = file
        self._scratch = scratch
        self._report = report
        self._missing: Database | None = None

    def counted(self, *, replace: bool = False) -> Counts:
        """Reads the whole file, and with `replace` the topic too. Nothing is written."""
        counts, pieces, left_out = Counts(), [], []
        for rows in self._file.batches():
            counts.take(rows)
            pieces.append(hashes_of(rows.keys))
            if len(rows.rejected_keys):
                left_out.append(hashes_of(rows.rejected_keys))
            self._report(f"{counts.rows:,} rows read")
        hashes = np.concatenate(pieces) if pieces else np.empty(0, np.uint64)
        pieces.clear()
        hashes.sort()
        counts.repeated = int((hashes[1:] == hashes[:-1]).sum())
        if replace:
            # The file has these keys too: with `skip_rejected` their rows stay as they are.
            counts.deleted = self._find_missing(np.sort(np.concatenate([hashes, *left_out])))
        return counts

    def written(self, *, skip_rejected: bool = False, replace: bool = False) -> Counts:
        """Raises WouldLoseData and writes nothing if some rows cannot be written and must not be skipped."""
        counts = Counts()
        target = self._target
        producer = WholeTransactions(target.writing, target.identity, deadline_s=target.cluster.deadline_s)
        with target.transaction(producer):
            for rows in self._file.batches():
                producer.produce(target.topic, rows.keys.to_pylist(), rows.values.to_pylist())
                counts.take(rows)
                self._report(f"{counts.written:,} rows written")
            if counts.rejected and not skip_rejected:
                raise rejected(counts)
            for keys in self._missing_keys() if replace else ():
                producer.produce(target.topic, keys, [None] * len(keys))
                counts.deleted += len(keys)
                self._report(f"{counts.deleted:,} keys deleted")
        return counts

    def close(self) -> None:
        if self._missing is not None:
            self._missing.close()

    def _find_missing(self, hashes: npt.NDArray[np.uint64]) -> int:
        """Finds keys of the topic that are not in the file. They are kept on disk: it may be all keys of the topic."""
        sizes = Sizes(block_cache=8 << 20, write_buffer=16 << 20)
        self._missing = Database.primary(self._scratch / "missing", sizes, create=True)
        for batch in batches_of(self._target.cluster, self._target.topic, self._report):
            keys = [key_of(message) for message in batch]
            asked = hashes_of(keys)
            places = np.minimum(np.searchsorted(hashes, asked), max(0, len(hashes) - 1))
            absent = hashes[places] != asked if len(hashes) else np.ones(len(keys), np.bool_)
            puts: dict[bytes, bytes] = {}
            deletes: dict[bytes, None] = {}
            for index in np.flatnonzero(absent).tolist():
                key = keys[index]
                if key is None:
                    continue
                puts.pop(_BEGIN + key, None)
                deletes.pop(_BEGIN + key, None)
                if batch[index].value() is None:
                    deletes[_BEGIN + key] = None
                else:
                    puts[_BEGIN + key] = b""
            self._missing.write(puts, list(deletes))
        return sum(1 for _ in self._missing.scan(_BEGIN, _END))

    def _missing_keys(self) -> Iterator[list[bytes]]:
        assert self._missing is not None  # noqa: S101 - `counted` was called with `replace`
        keys: list[bytes] = []
        for key, _ in self._missing.scan(_BEGIN, _END):
            keys.append(key[len(_BEGIN) :])
            if len(keys) >= _TOMBSTONES:
                yield keys
                keys = []
        if keys:
            yield keys


def rejected(counts: Counts) -> WouldLoseData:
    reasons = "; ".join(f"{number:,} rows: {reason}" for reason, number in counts.reasons.items())
    return WouldLoseData(
        f"{counts.rejected:,} of {counts.rows:,} rows cannot be written: {reasons}",
        next_step="correct the file, or leave them out with --skip-rejected; nothing was written",
    )


@contextmanager
def load_of(target: Target, file: RowsFile, state_dir: Path, report: Report = silent) -> Iterator[Load]:
    """A load with a temporary directory."""
    make_base_folder(state_dir)
    with closing(file), scratch_directory(state_dir) as scratch:
        load = Load(target, file, scratch, report)
        with closing(load):
            yield load

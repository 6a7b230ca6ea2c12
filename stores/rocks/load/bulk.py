"""Loads a whole table beside its old rows, and swaps the new ones in with one small write.

The rows go into sorted files, which RocksDB ingests as they are, under a new table id that nobody reads yet. One write
then gives the table this id, together with positions, count, digest and seq: readers see all or nothing. A failure
before that leaves rows that nobody can see; the next writer removes them.
"""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

import pyarrow as pa

from stores.errors import EnrichError
from stores.protocol import Publication, Quarantined, TableSpec
from stores.rocks.database import Sizes, SortedFile
from stores.rocks.load.bulk_rows import BulkRows
from stores.rocks.load.runs import SortedRuns
from stores.rocks.state import TableState
from stores.rocks.write.incoming import incoming
from stores.rocks.write.setting_aside import Room, SetAside, Waiting
from stores.table import HistoryFloor, Offsets


class Target(Protocol):
    """What a bulk load needs of its store."""

    def ingest(self, files: Sequence[Path]) -> None: ...

    def write_unseen(self, puts: Mapping[bytes, bytes]) -> None: ...

    def swap(self, table: TableState, aside: SetAside, waiting: Waiting) -> Publication: ...

    def abandon(self, table_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a store reserves for one load. It can be passed to another process."""

    table: TableState
    """Empty, with a new table id that nobody reads yet."""
    waiting: Waiting
    work: Path
    """A directory for the load's files, on the file system of the database."""
    budget: int
    """Bytes of rows that the load may hold in memory."""
    sizes: Sizes
    room: Room
    now: int


class BulkLoad:
    """One load of one table, and a context: an error in it abandons the load. For one thread. The store can publish
    meanwhile."""

    def __init__(self, target: Target, spec: TableSpec, reserved: Reserved) -> None:
        self._target = target
        self._spec = spec
        self._table = reserved.table
        self._work = reserved.work
        self._sizes = reserved.sizes
        self._now = reserved.now
        self._runs = SortedRuns(reserved.work, reserved.budget)
        self._aside = SetAside(reserved.room)
        self._waiting = reserved.waiting

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abandon()

    def add(self, versions: pa.RecordBatch) -> Sequence[Quarantined]:
        """Takes records (`ROW_VERSIONS`) in any order. Returns those that cannot become a version: `finish` puts them
        into the table's quarantine.

        Raises Retryable when the disk is full: abandon the load and begin again.
        """
        self._waiting.meet(versions)
        came = incoming(self._table.name, self._spec, versions, {}, self._now)
        self._aside.add(came.quarantined)
        self._runs.add(came.versions)
        return came.quarantined

    def finish(
        self,
        positions: Offsets,
        floors: Mapping[int, HistoryFloor] | None = None,
        complete_through: int | None = None,
        notes: Mapping[str, str] | None = None,
        buried: Offsets | None = None,
    ) -> Publication:
        """Replaces all rows of the table with the new ones, and its positions and floors with these.

        The quarantine keeps its old records that the load did not meet: the topic no longer has them.

        The floors say from where on the load saw every version. Versions hidden below them are dropped.
        `buried`: below these offsets the rows may lack tombstones that the topic still has.
        When it raises, the load is abandoned: begin again.
        """
        rows = BulkRows(
            self._table.table_id,
            self._spec,
            self._now,
            given_floors=floors or {},
            floors=dict(floors or {}),
        )
        try:
            files = self._write(rows)
            if files:
                self._target.ingest(files)
            table = replace(
                self._table,
                positions=dict(positions),
                floors=rows.floors,
                complete_through=complete_through,
                notes=notes or {},
                buried=dict(buried or {}),
                loaded_ms=self._now,
                rows=rows.rows,
                split_keys=rows.split_keys,
                digest=rows.digest,
            )
            published = self._target.swap(table.with_lengths(rows.lengths), self._aside, self._waiting)
        except BaseException:
            self.abandon()
            raise
        shutil.rmtree(self._work, ignore_errors=True)
        return published

    def abandon(self) -> None:
        """Gives up; the table is unchanged."""
        shutil.rmtree(self._work, ignore_errors=True)
        # If the disk is full, the invisible rows cannot be removed now. Then the next writer removes them.
        with contextlib.suppress(EnrichError):
            self._target.abandon(self._table.table_id)

    def _write(self, rows: BulkRows) -> list[Path]:
        files: list[Path] = []
        for number, versions in enumerate(self._runs.merged()):
            file = SortedFile(self._work / f"rows-{number}.sst", self._sizes)
            for keys, values in rows.latest(versions):
                file.append(keys, values)
                if rows.history:
                    self._target.write_unseen(rows.history)
                    rows.history = {}
            file.finish()
            files.append(file.path)
        return files

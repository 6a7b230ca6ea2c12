"""Loads a whole table beside the rows that it holds, and swaps them in one small write.

The rows go into sorted files that RocksDB takes in as they are, under a number of the table that nobody reads yet.
One write then gives the table this number, together with positions, count, digest and seq: readers see all or nothing.
Whatever happens before leaves rows that nobody can see; the next writer removes them.
"""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from stores.errors import EnrichError
from stores.protocol import KeyKind, Publication, Quarantined, TableSpec
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

    def swap(self, table: TableState, masked: int, aside: SetAside, waiting: Waiting) -> Publication: ...

    def abandon(self, table_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a store sets apart for one load. It can be handed to another process."""

    table: TableState
    """Empty, under a number that nobody reads yet."""
    waiting: Waiting
    work: Path
    """A directory for the load's files, on the file system of the database."""
    budget: int
    """Bytes of rows that the load may hold in memory."""
    sizes: Sizes
    room: Room
    now: int


class BulkLoad:
    """One load of one table. For one thread; publications of the store go on beside it."""

    def __init__(self, target: Target, spec: TableSpec, reserved: Reserved) -> None:
        self._target = target
        self._spec = spec
        self._table = reserved.table
        self._work = reserved.work
        self._sizes = reserved.sizes
        self._now = reserved.now
        self._runs = SortedRuns(reserved.work, reserved.budget)
        self._masked = 0
        self._aside = SetAside(reserved.room)
        self._waiting = reserved.waiting

    def add(self, versions: pa.RecordBatch) -> Sequence[Quarantined]:
        """Takes records (`ROW_VERSIONS`) in any order. Returns those that cannot become a version: `finish` shows them
        in the table's quarantine.

        Raises Retryable when the disk is full: abandon the load and begin again.
        """
        self._waiting.meet(versions)
        came = incoming(self._table.name, self._spec, versions, {}, self._now)
        self._masked += came.masked
        self._aside.add(came.quarantined)
        self._runs.add(came.versions)
        return came.quarantined

    def finish(
        self,
        positions: Offsets,
        floors: Mapping[int, HistoryFloor] | None = None,
        complete_through: int | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> Publication:
        """Shows the new rows in place of all that the table held. Its positions and floors are then these.

        The quarantine keeps what was in it and did not come again: the topic has it no more.

        The floors say from where on the load saw every version. Versions hidden below them are dropped.
        When it raises, the load is abandoned: begin again.
        """
        rows = BulkRows(
            self._table.table_id,
            self._spec.history_ms,
            self._now,
            self._spec.key is KeyKind.CIDR,
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
                rows=rows.rows,
                split_keys=rows.split_keys,
                digest=rows.digest,
            )
            published = self._target.swap(table.with_lengths(rows.lengths), self._masked, self._aside, self._waiting)
        except BaseException:
            self.abandon()
            raise
        shutil.rmtree(self._work, ignore_errors=True)
        return published

    def abandon(self) -> None:
        """Gives up; the table stays as it is."""
        shutil.rmtree(self._work, ignore_errors=True)
        # On a full disk the unseen rows cannot be removed now. Then the next writer removes them.
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

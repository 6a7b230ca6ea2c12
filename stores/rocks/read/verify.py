"""Compares a table's rows with what publications recorded. RocksDB's checksums find damage inside a file when it is
read; this also finds rows that are missing altogether."""

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from stores.errors import CorruptState
from stores.rocks.database import Database
from stores.rocks.digest import added, digest_of
from stores.rocks.layout import HEADERS, LATEST, decode, end_of, prefix
from stores.rocks.quarantine import quarantine_digest, quarantine_rows
from stores.rocks.state import TableState

_ROWS_AT_A_TIME = 1 << 14


@dataclass(frozen=True, slots=True)
class Verified:
    """What a scan of a table has found."""

    rows: int
    digest: int
    quarantined: int = 0

    def with_rows(self, keys: list[bytes], rows: list[bytes]) -> "Verified":
        """`keys`: as the table stores them."""
        return replace(self, rows=self.rows + len(rows), digest=added(self.digest, _digest_of_rows(keys, rows), 0))


def verify(database: Database, table: TableState) -> Verified:
    """Raises CorruptState if count or digest differ from what publications recorded."""
    begin = prefix(LATEST, table.table_id)
    found = Verified(0, 0)
    for keys, rows in database.scan_in_pieces(begin, end_of(begin)):
        found = found.with_rows([key[len(begin) :] for key in keys], rows)
    require_whole(found, table, database.path)
    return replace(found, quarantined=_verified_quarantine(database, table))


def require_whole(found: Verified, table: TableState, path: Path) -> None:
    """Raises CorruptState if the scan's result differs from what publications recorded."""
    if (found.rows, found.digest) != (table.rows, table.digest):
        raise CorruptState(
            f"table `{table.name}` holds {found.rows} rows with digest {found.digest:016x}, "
            f"it should hold {table.rows} with {table.digest:016x}",
            where=str(path),
            next_step="rebuild the table",
        )


def _verified_quarantine(database: Database, table: TableState) -> int:
    rows = quarantine_rows(database.scan, table.table_id)
    records = digest = 0
    while piece := list(islice(rows, _ROWS_AT_A_TIME)):
        records += len(piece)
        digest = added(digest, quarantine_digest(piece), 0)
    kept = table.quarantine
    if (records, digest) != (kept.kept_records, kept.digest):
        raise CorruptState(
            f"the quarantine of table `{table.name}` holds {records} records with digest {digest:016x}, "
            f"it should hold {kept.kept_records} with {kept.digest:016x}",
            where=str(database.path),
            next_step="rebuild the store",
        )
    return records


def _digest_of_rows(keys: list[bytes], rows: list[bytes]) -> int:
    size = HEADERS.itemsize
    headers = np.frombuffer(b"".join(row[:size] for row in rows), HEADERS)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    if (headers["size"] + size == sizes).all():
        return digest_of(keys, headers["partition"], headers["offset"])
    # Some keys are in several partitions.
    entries = [(key, entry) for key, row in zip(keys, rows, strict=True) for entry in decode(row)]
    return digest_of(
        [key for key, _ in entries], [entry.partition for _, entry in entries], [entry.offset for _, entry in entries]
    )

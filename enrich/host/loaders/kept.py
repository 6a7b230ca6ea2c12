"""The rows of a loader table in the store, and the changes from them to the rows that were read."""

from collections.abc import Iterator, Set
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from enrich.host.loaders.source import SOURCE_ROWS
from stores.protocol import TableSpec
from stores.rocks import RocksReader
from stores.table import ROW_VERSIONS, RowVersion, row_versions

_ROWS_A_BATCH = 10_000

KeyAndValue = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Kept:
    living: pa.Table
    """As `ROW_VERSIONS`: the newest version of each key that is not deleted."""
    tombstones: int
    quarantined: Set[KeyAndValue]
    newest_ms: int = 0
    """The latest time of any version."""


@dataclass(frozen=True, slots=True)
class Changes:
    put: pa.Table
    """As `SOURCE_ROWS`: new and changed rows, sorted by key."""
    gone: pa.Array
    """The keys of rows that the source no longer has, sorted."""


def kept_rows(store: Path, name: str, spec: TableSpec) -> Kept:
    """Read from the store each time and not cached: so it is right whatever happened to the store."""
    with closing(RocksReader(store, {name: spec})) as reader:
        view = reader.snapshot().table(name)
        table = pa.Table.from_batches(_in_batches(view.scan()), ROW_VERSIONS)
        quarantined = {(record.key, record.value) for record in view.quarantined()}
    living = table.filter(pc.is_valid(table["value"]))
    return Kept(living, len(table) - len(living), quarantined, pc.max(table["timestamp"]).as_py() or 0)


def changes(read: pa.Table, living: pa.Table) -> Changes:
    """The changes from the living rows to those that were read (`SOURCE_ROWS`, each key once)."""
    put = read.join(living.select(SOURCE_ROWS.names), keys=SOURCE_ROWS.names, join_type="left anti")
    gone = living.select(["key"]).join(read.select(["key"]), keys=["key"], join_type="left anti")
    return Changes(put.sort_by("key").cast(SOURCE_ROWS), gone.sort_by("key")["key"].combine_chunks())


def without(rows: pa.Table, keys: pa.Array) -> pa.Table:
    """The rows whose keys are not among these."""
    others = rows.join(pa.table({"key": keys}), keys=["key"], join_type="left anti")
    return others.select(rows.schema.names).cast(rows.schema)


def _in_batches(versions: Iterator[RowVersion]) -> Iterator[pa.RecordBatch]:
    while batch := list(islice(versions, _ROWS_A_BATCH)):
        yield row_versions(batch)

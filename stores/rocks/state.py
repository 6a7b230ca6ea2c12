"""The state of a store and its tables at one seq. Every publication writes it, together with its data."""

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stores.errors import ConfigError, CorruptState
from stores.protocol import KeyKind
from stores.rocks.database import Database
from stores.rocks.layout import META, end_of
from stores.rocks.quarantine import QuarantineState
from stores.table import HistoryFloor, Offsets, Seq

FORMAT = 2
STORE_ROW = META + b"store"
_TABLE_ROWS = META + b"table/"


@dataclass(frozen=True, slots=True)
class TableState:
    """One table at one seq."""

    name: str
    table_id: int
    key: KeyKind = KeyKind.EXACT
    positions: Offsets = field(default_factory=dict)
    floors: Mapping[int, HistoryFloor] = field(default_factory=dict)
    buried: Offsets = field(default_factory=dict)
    """Below these offsets tombstones may have been removed, and with them their keys."""
    loaded_ms: int = 0
    """The clock when the load began from which the rows come. What came into the quarantine before is no longer in the
    topic. 0: a load of an earlier release, or none."""
    complete_through: int | None = None
    rows: int = 0
    """The number of keys, tombstones included."""
    split_keys: int = 0
    """The number of keys that are in more than one partition: a fault of the topic."""
    digest: int = 0
    """The digest of the newest version of each key and partition: see digest.py."""
    lengths: tuple[int, ...] = ()
    """The lengths of the networks that a cidr table has ever held, longest first."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """See `TableUpdate`."""
    quarantine: QuarantineState = field(default_factory=QuarantineState)

    def with_lengths(self, lengths: Iterable[int]) -> "TableState":
        if self.key is KeyKind.EXACT:
            return self
        return replace(self, lengths=tuple(sorted({*self.lengths, *lengths}, reverse=True)))


@dataclass(frozen=True, slots=True)
class StoreState:
    """All tables at one seq."""

    seq: Seq
    tables: Mapping[str, TableState]
    next_table_id: int

    def with_tables(self, changed: Iterable[TableState]) -> "StoreState":
        """The next seq, with these tables in place of the ones of the same name."""
        seq = self.seq._replace(counter=self.seq.counter + 1)
        return replace(self, seq=seq, tables={**self.tables, **{table.name: table for table in changed}})

    def rows(self, *names: str) -> dict[bytes, bytes]:
        """The state rows that a write of these tables must include."""
        store = {
            "format": FORMAT,
            "store": self.seq.store,
            "generation": self.seq.generation,
            "counter": self.seq.counter,
            "next_table_id": self.next_table_id,
        }
        tables = {table_row(name): _table_bytes(self.tables[name]) for name in names}
        return {STORE_ROW: json.dumps(store).encode(), **tables}


def table_row(name: str) -> bytes:
    return _TABLE_ROWS + name.encode()


def read_state(database: Database) -> StoreState:
    """Raises CorruptState if the state is missing, incomplete or of an older format; ConfigError for a newer one."""
    where = str(database.path)
    rows = dict(database.scan(META, end_of(META)))
    if STORE_ROW not in rows:
        raise CorruptState("the store's own state row is missing", where=where, next_step="rebuild it")
    try:
        store: dict[str, Any] = json.loads(rows[STORE_ROW])
        _require_format(store["format"], where)
        tables = [_table(key, value) for key, value in rows.items() if key.startswith(_TABLE_ROWS)]
        seq = Seq(store["store"], store["generation"], store["counter"])
        return StoreState(seq, {table.name: table for table in tables}, store["next_table_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptState(
            f"the store's own rows cannot be read: {error!r}", where=where, next_step="rebuild it"
        ) from error


def _require_format(version: int, where: str) -> None:
    if version < FORMAT:
        raise CorruptState(
            f"the store has format {version}, this release writes {FORMAT}", where=where, next_step="rebuild it"
        )
    if version > FORMAT:
        raise ConfigError(
            f"the store has format {version}, this release knows {FORMAT} at most",
            where=where,
            next_step="use the newer release, or delete the directory to rebuild the store",
        )


def _table_bytes(table: TableState) -> bytes:
    fields = {
        "id": table.table_id,
        "key": table.key,
        "positions": sorted(table.positions.items()),
        "floors": [[partition, *floor] for partition, floor in sorted(table.floors.items())],
        **({"buried": sorted(table.buried.items())} if table.buried else {}),
        **({"loaded": table.loaded_ms} if table.loaded_ms else {}),
        "complete_through": table.complete_through,
        "rows": table.rows,
        "split_keys": table.split_keys,
        "digest": f"{table.digest:016x}",
        "lengths": table.lengths,
        "notes": dict(table.notes),
        "quarantine": _quarantine_fields(table.quarantine),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


@functools.lru_cache(maxsize=256)
def _table(key: bytes, value: bytes) -> TableState:
    # Cached, because a reader reads the state of all tables at each snapshot, and most have not changed.
    fields: dict[str, Any] = json.loads(value)
    return TableState(
        name=key.removeprefix(_TABLE_ROWS).decode(),
        table_id=fields["id"],
        key=KeyKind(fields["key"]),
        positions={int(partition): int(offset) for partition, offset in fields["positions"]},
        floors={int(p): HistoryFloor(int(offset), int(time)) for p, offset, time in fields["floors"]},
        buried=dict(fields.get("buried", ())),  # an earlier release has removed none
        loaded_ms=fields.get("loaded", 0),
        complete_through=fields["complete_through"],
        rows=fields["rows"],
        split_keys=fields["split_keys"],
        digest=int(fields["digest"], 16),
        lengths=tuple(fields["lengths"]),
        notes=fields["notes"],
        quarantine=_quarantine(**fields["quarantine"]),
    )


def _quarantine_fields(state: QuarantineState) -> dict[str, Any]:
    counts = {"kept": dict(state.kept), "not_kept": dict(state.not_kept)}
    return {**counts, "size": state.size, "digest": f"{state.digest:016x}"}


def _quarantine(kept: dict[str, int], not_kept: dict[str, int], size: int, digest: str) -> QuarantineState:
    return QuarantineState(kept, not_kept, size, int(digest, 16))

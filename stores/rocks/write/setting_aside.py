"""Changes to a table's quarantine: by a publication, by the swap of a bulk load, by a purge.

A quarantine is bounded. Records that come when it is full are only counted, by reason; their bytes are in the topic
only. A topic whose records are all bad must not fill the disk, and the first records show best what went wrong.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.protocol import Quarantined, QuarantineId
from stores.rocks.database import Database
from stores.rocks.digest import added
from stores.rocks.layout import QUARANTINE, parse_quarantine_key, prefix, quarantine_key
from stores.rocks.quarantine import (
    QuarantineState,
    encode_record,
    quarantine_digest,
    quarantine_rows,
    reason_of,
)
from stores.rocks.state import TableState

OTHER_REASONS = "other reasons"
_REASONS = 32
"""At most so many reasons are counted separately: each publication writes the counts, and topics may hold anything."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much the quarantine of one table keeps."""

    records: int = 10_000
    size: int = 16 << 20
    """In bytes. A rebuild writes them all again, in one write."""


_UNBOUNDED = Room(1 << 62, 1 << 62)


@dataclass(slots=True)
class SetAside:
    """Records to be added to a quarantine. `state` is the quarantine's state with them."""

    room: Room
    state: QuarantineState = field(default_factory=QuarantineState)
    rows: dict[bytes, bytes] = field(default_factory=dict)
    """Key -> row: the rows to write."""

    def add(self, records: Sequence[Quarantined], are_there: Callable[[list[bytes]], list[bool]] | None = None) -> None:
        """Adds records. `are_there` says which keys the quarantine already has; these are skipped."""
        keys = [quarantine_key(*record.id) for record in records]
        known = [False] * len(keys) if are_there is None else are_there(keys)
        self._add(
            (key, encode_record(record), record.reason)
            for key, record, is_there in zip(keys, records, known, strict=True)
            if not is_there
        )

    def add_rows(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Adds the records (keys and rows) that another quarantine kept."""
        self._add((key, row, reason_of(row)) for key, row in rows)

    def count(self, not_kept: Mapping[str, int]) -> None:
        """Adds the counts of records that another quarantine had no room for."""
        counts = dict(self.state.not_kept)
        for reason, number in not_kept.items():
            _count(counts, reason, number)
        self.state = replace(self.state, not_kept=counts)

    def puts(self, table_id: int) -> dict[bytes, bytes]:
        keys = prefix(QUARANTINE, table_id)
        return {keys + key: row for key, row in self.rows.items()}

    def _add(self, rows: Iterable[tuple[bytes, bytes, str]]) -> None:
        kept, not_kept, size = dict(self.state.kept), dict(self.state.not_kept), self.state.size
        records = self.state.kept_records
        came: dict[bytes, bytes] = {}
        for key, row, reason in rows:
            if key in came or key in self.rows:
                continue
            if records >= self.room.records or size + len(row) > self.room.size:
                _count(not_kept, reason)
                continue
            came[key] = row
            records += 1
            size += len(row)
            _count(kept, reason)
        self.rows.update(came)
        digest = added(self.state.digest, quarantine_digest(came.items()), 0)
        self.state = QuarantineState(kept, not_kept, size, digest)


class Waiting:
    """The quarantined records of a table that is being loaded anew. If the load meets one again, it decides on it."""

    def __init__(self, stored: Database, table_id: int) -> None:
        ids = (parse_quarantine_key(key) for key, _ in quarantine_rows(stored.scan, table_id))
        self._offsets = np.array(sorted({offset for _, offset, _ in ids}), np.int64)
        self.met: set[tuple[int, int, int]] = set()
        """The ids of records met. May include ids that are not in quarantine: only offsets are compared."""

    def meet(self, versions: pa.RecordBatch) -> None:
        if not len(self._offsets):
            return
        partition, offset, timestamp = (
            versions.column(name).to_numpy() for name in ("partition", "offset", "timestamp")
        )
        at: npt.NDArray[np.int64] = np.flatnonzero(np.isin(offset, self._offsets))
        self.met.update(zip(partition[at].tolist(), offset[at].tolist(), timestamp[at].tolist(), strict=True))


def published(stored: Database, table: TableState, records: Sequence[Quarantined], room: Room) -> SetAside:
    """The quarantine with the records that a publication adds."""
    aside = SetAside(room, table.quarantine)
    if records:
        keys = prefix(QUARANTINE, table.table_id)
        # Records come again after a load whose positions are behind what was published meanwhile.
        aside.add(records, lambda asked: [row is not None for row in stored.get_many([keys + key for key in asked])])
    return aside


def carried_over(stored: Database, old: TableState, waiting: Waiting, loaded: SetAside) -> SetAside:
    """The quarantine after a swap: old records that the load did not meet (the topic no longer has them), then the
    load's records. The counts of records not kept are the load's: it counted them anew."""
    met = {quarantine_key(*met) for met in waiting.met}
    together = SetAside(loaded.room)
    together.add_rows(row for row in quarantine_rows(stored.scan, old.table_id) if row[0] not in met)
    together.add_rows(loaded.rows.items())
    together.count(loaded.state.not_kept)
    return together


@dataclass(frozen=True, slots=True)
class Purged:
    state: QuarantineState
    deletes: Sequence[bytes]


def purged(stored: Database, table: TableState, ids: Iterable[QuarantineId]) -> Purged:
    """What a purge leaves and what it deletes. The counts are recomputed from what is left."""
    wanted = {quarantine_key(*one) for one in ids}
    rows = list(quarantine_rows(stored.scan, table.table_id))
    left = SetAside(_UNBOUNDED)
    left.add_rows(row for row in rows if row[0] not in wanted)
    left.count(table.quarantine.not_kept)
    keys = prefix(QUARANTINE, table.table_id)
    return Purged(left.state, [keys + key for key, _ in rows if key in wanted])


def _count(counts: dict[str, int], reason: str, number: int = 1) -> None:
    group = reason if reason in counts or len(counts) < _REASONS else OTHER_REASONS
    counts[group] = counts.get(group, 0) + number

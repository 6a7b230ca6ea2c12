"""Folds new row versions into the rows of a table, and finds those to remove: what to write, and the new state."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow as pa

from stores.answers import raised
from stores.protocol import TableSpec
from stores.rocks.database import Database
from stores.rocks.digest import added, digest_of
from stores.rocks.layout import (
    HAS_HISTORY,
    LATEST,
    QUEUE,
    STICKY,
    TOMBSTONE,
    UNORDERED,
    Due,
    Entry,
    decode,
    due_prefix,
    encode,
    end_of,
    history_key,
    history_prefix,
    is_tombstone,
    parse_due,
    prefix,
    queue_row,
    tombstone_row,
    up_to,
)
from stores.rocks.state import TableState
from stores.table import HistoryFloor

_ROWS_AT_A_TIME = 64
"""Of keys that were deleted. They may have come again, with large rows."""

StoredRows = Mapping[bytes, bytes | None]
"""What is stored of some keys."""


@dataclass(frozen=True, slots=True)
class _Record:
    """A new row version, with its key as the table stores it."""

    key: bytes
    partition: int
    offset: int
    timestamp: int
    value: bytes | None


@dataclass(slots=True)
class Folding:
    """Folds one batch of one table."""

    stored: Database
    table: TableState
    spec: TableSpec
    now: int
    puts: dict[bytes, bytes]
    deletes: list[bytes]
    _floors: dict[int, HistoryFloor] = field(default_factory=dict)
    _waiting: dict[tuple[bytes, int], list[Entry]] = field(default_factory=dict)

    def fold(self, versions: pa.RecordBatch, rows: StoredRows | None = None) -> TableState:
        """Fills `puts` and `deletes`. Versions of a partition come in the order of their offsets. `rows`: what
        is stored, if it was read."""
        latest = prefix(LATEST, self.table.table_id)
        records = [_Record(*fields) for fields in zip(*versions.to_pydict().values(), strict=True)]
        if rows is None:
            keys = list(dict.fromkeys(record.key for record in records))
            rows = dict(zip(keys, self.stored.get_many([latest + key for key in keys]), strict=True))
        before = {key: [] if row is None else decode(row) for key, row in rows.items()}
        after = {key: {entry.partition: entry for entry in entries} for key, entries in before.items()}
        self._floors = dict(self.table.floors)
        for record in records:
            entries = after[record.key]
            entries[record.partition] = self._newest(record, entries.get(record.partition))
        for key, entries in after.items():
            row = self.puts[latest + key] = encode(entries.values())
            if self.spec.history_ms:
                continue
            was = rows[key]
            if was is not None and was != row and is_tombstone(was):
                self.deletes.append(self._when_it_goes(key, was)[0])
            if is_tombstone(row):
                due, itself = self._when_it_goes(key, row)
                self.puts[due] = itself
        return replace(
            self.table,
            floors=self._floors,
            rows=self.table.rows + sum(not entries for entries in before.values()),
            split_keys=self.table.split_keys + _split(after.values()) - _split(before.values()),
            digest=added(
                self.table.digest,
                plus=_digest((key, entry) for key, entries in after.items() for entry in entries.values()),
                minus=_digest((key, entry) for key, entries in before.items() for entry in entries),
            ),
        )

    def _newest(self, record: _Record, old: Entry | None) -> Entry:
        tombstone = TOMBSTONE if record.value is None else 0
        new = Entry(record.timestamp, record.partition, record.offset, self.now, tombstone, record.value or b"")
        if old is None:
            return new
        if old.offset >= new.offset:
            return old  # the same record twice in a batch
        flags = tombstone | (old.flags & STICKY)
        waiting = self._waiting_for(record.key, old) if flags & UNORDERED else []
        if old.timestamp > new.timestamp:
            # No version hides the old one from as-of times after its own, until one with such a time comes.
            self._keep(record.key, old)
            self._waiting.setdefault((record.key, record.partition), waiting).append(old)
            return new._replace(flags=flags | HAS_HISTORY | UNORDERED)
        for hidden in [entry for entry in waiting if entry.timestamp <= new.timestamp]:
            waiting.remove(hidden)
            self._let_go_later(record.key, hidden, new)
        if self.spec.history_ms == 0:
            raised(self._floors, new.partition, new.offset, new.timestamp)
            return new._replace(flags=flags)
        self._keep(record.key, old)
        self._let_go_later(record.key, old, new)
        return new._replace(flags=flags | HAS_HISTORY)

    def _when_it_goes(self, key: bytes, tombstone: bytes) -> tuple[bytes, bytes]:
        (entry,) = decode(tombstone)
        return tombstone_row(self.table.table_id, key, entry, self.spec.tombstones_ms)

    def _waiting_for(self, key: bytes, old: Entry) -> list[Entry]:
        """The versions that no later one hides yet, and perhaps others: queueing those twice does no harm."""
        place = (key, old.partition)
        if place not in self._waiting:
            start = history_prefix(self.table.table_id, key)
            rows = self.stored.scan(start + up_to(old.timestamp), end_of(start))
            kept = [entry for _, row in rows for entry in decode(row)]
            self._waiting[place] = [entry for entry in kept if entry.partition == old.partition]
        return self._waiting[place]

    def _keep(self, key: bytes, old: Entry) -> None:
        self.puts[history_key(self.table.table_id, key, old)] = encode([old])

    def _let_go_later(self, key: bytes, old: Entry, successor: Entry) -> None:
        row, value = queue_row(self.table.table_id, key, old, successor, self.spec.history_ms)
        self.puts[row] = value


def _split(rows: Iterable[Sized]) -> int:
    return sum(len(entries) > 1 for entries in rows)


def _digest(versions: Iterator[tuple[bytes, Entry]]) -> int:
    listed = list(versions)
    return digest_of(
        [key for key, _ in listed], [entry.partition for _, entry in listed], [entry.offset for _, entry in listed]
    )


@dataclass(frozen=True, slots=True)
class Expired:
    """What one pass removes from one table, and the table's state afterwards."""

    table: TableState
    deletes: Sequence[bytes]
    looked_at: int
    removed: int


def expired(database: Database, table: TableState, spec: TableSpec, now: int, limit: int) -> Expired:
    """At most `limit` of the versions that no look-up within the history can return, the longest due first, and of
    tombstones that the table need not know any more. Only what is due is read."""
    rows = database.scan(prefix(QUEUE, table.table_id), due_prefix(table.table_id, now - spec.history_ms + 1))
    deletes: list[bytes] = []
    floors, hidden, tombstones = dict(table.floors), 0, []
    for key, value in islice(rows, limit):
        due = parse_due(key, value)
        deletes.append(key)
        if due.is_tombstone:
            tombstones.append(due)
            continue
        hidden += 1
        deletes.append(due.history_key)
        raised(floors, due.partition, due.successor_offset, due.successor_timestamp)
    looked_at = hidden + len(tombstones)
    if spec.history_ms:  # the table had none before: it keeps what pins may ask for
        tombstones.clear()
    gone = _still_newest(database, tombstones, {*deletes}) if tombstones else []
    buried = dict(table.buried)
    for due in gone:
        raised(floors, due.partition, due.offset, due.successor_timestamp)
        buried[due.partition] = max(buried.get(due.partition, 0), due.offset + 1)
    minus = digest_of([due.key for due in gone], [due.partition for due in gone], [due.offset for due in gone])
    state = replace(
        table, floors=floors, buried=buried, rows=table.rows - len(gone), digest=added(table.digest, 0, minus)
    )
    return Expired(state, [*deletes, *(due.latest_key for due in gone)], looked_at, hidden + len(gone))


def _still_newest(database: Database, tombstones: Sequence[Due], deletes: Set[bytes]) -> list[Due]:
    """Those whose keys have not come again, and of which no older version answers for a time. `deletes`: what goes
    now."""
    found = []
    for start in range(0, len(tombstones), _ROWS_AT_A_TIME):
        some = tombstones[start : start + _ROWS_AT_A_TIME]
        for due, row in zip(some, database.get_many([due.latest_key for due in some]), strict=True):
            if row is None or not is_tombstone(row):
                continue
            (newest,) = decode(row)
            is_same = (newest.partition, newest.offset) == (due.partition, due.offset)
            if is_same and (not newest.flags & STICKY or _past(database, due) <= deletes):
                found.append(due)
    return found


def _past(database: Database, due: Due) -> Set[bytes]:
    begin = due.history_prefix
    return {key for key, _ in database.scan(begin, end_of(begin))}

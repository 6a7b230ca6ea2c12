"""Answers look-ups on one table at one seq: one multi-get for the distinct keys, one decode for the distinct rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores.answers import chosen, is_expired, require_columns, require_reached
from stores.errors import ConfigError, CorruptState
from stores.keys import key_bytes, milliseconds
from stores.networks import parse_network
from stores.protocol import KeyKind, Quarantined, TableSpec
from stores.rocks.database import Database
from stores.rocks.layout import LATEST, TOMBSTONE, Entry, decode, end_of, prefix
from stores.rocks.network_rows import network_key, network_text, networks_around
from stores.rocks.quarantine import QuarantineState, quarantined_records
from stores.rocks.read.answered import Answer, Answered, answered, newest
from stores.rocks.read.past import Past
from stores.rocks.read.whole import WholeTable
from stores.rocks.state import TableState
from stores.table import Found, HistoryFloor, Offsets, RowVersion, Status

_Question = tuple[bytes, int | None]
"""A key and a time."""


@dataclass(frozen=True, slots=True)
class RocksTable:
    _spec: TableSpec
    _table: TableState
    _database: Callable[[], Database]
    """Raises once the reader has taken a newer snapshot."""

    @property
    def columns(self) -> pa.Schema:
        return self._spec.columns

    @property
    def positions(self) -> Offsets:
        return self._table.positions

    @property
    def floors(self) -> Mapping[int, HistoryFloor]:
        return self._table.floors

    @property
    def complete_through(self) -> int | None:
        return self._table.complete_through

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        """See `TableView`. Raises CorruptState if the database is damaged."""
        database = self._database()
        require_columns(self.columns, columns)
        require_reached(self.positions, pin)
        probes = key_bytes(keys)
        if as_of is None:
            # Without a time the answer depends on the key alone: look each distinct key up once, in the order of the
            # database (a third faster).
            encoded = probes.dictionary_encode()
            order = pc.sort_indices(encoded.dictionary)
            distinct = encoded.dictionary.take(order).to_pylist()
            place_of = np.empty(len(distinct), np.int64)
            place_of[order.to_numpy()] = np.arange(len(distinct))
            which = pa.array(place_of).take(encoded.indices)
            if pin is None and self._spec.key is KeyKind.EXACT:
                begin = prefix(LATEST, self._table.table_id)
                rows = database.get_many([begin + key for key in distinct])
                return self._gather(newest(rows), which, columns)
            answers = self._answers(database, [(key, None) for key in distinct], pin)
        else:
            asked = list(zip(probes.to_pylist(), milliseconds(as_of).to_pylist(), strict=True))
            whole = [(key, time) for key, time in dict.fromkeys(asked) if key is not None and time is not None]
            answers = self._answers(database, whole, pin)
            places = {question: place for place, question in enumerate(whole)}
            which = pa.array([places.get(question) for question in asked], pa.int64())
        return self._gather(answered(answers), which, columns)

    def scan(self, prefix_: bytes = b"") -> Iterator[RowVersion]:
        """The latest version, even if it is a tombstone, of each key with this prefix, in the order of the keys.

        In a cidr table the prefix is one of the network's text, and the order is by network."""
        database = self._database()
        begin = prefix(LATEST, self._table.table_id)
        is_cidr = self._spec.key is KeyKind.CIDR
        start = begin if is_cidr else begin + prefix_
        for row_key, row in database.scan(start, end_of(start)):
            key = network_text(row_key[3:]) if is_cidr else row_key[3:]
            if key.startswith(prefix_):
                yield _row_version(key, max(decode(row)))

    def versions(self, key: bytes) -> Sequence[RowVersion]:
        """All versions of a key that are still kept, by (timestamp, partition, offset), the oldest first."""
        database = self._database()
        stored = self._stored_key(key)
        (row,) = database.get_many([prefix(LATEST, self._table.table_id) + stored])
        latest = [] if row is None else decode(row)
        past = Past(database, self._table.table_id)
        return [_row_version(key, entry) for entry in sorted([*past.all_of(stored), *latest])]

    @property
    def quarantine(self) -> QuarantineState:
        """How many records are in quarantine, and why, without reading them."""
        return self._table.quarantine

    def quarantined(self) -> Iterator[Quarantined]:
        """The records that the quarantine keeps, by partition and offset."""
        return quarantined_records(self._database().scan, self._table.name, self._table.table_id)

    def whole(self) -> WholeTable:
        """All rows as stored: for snapshots, and for the comparison with the topic."""
        return WholeTable(self._table, self._database)

    def _stored_key(self, key: bytes) -> bytes:
        if self._spec.key is KeyKind.EXACT:
            return key
        try:
            return network_key(parse_network(key))
        except ValueError as error:
            raise ConfigError(f"{key!r} is no network: {error}", next_step="write it as 10.0.0.0/8") from error

    def _answers(self, database: Database, questions: Sequence[_Question], pin: Offsets | None) -> list[Answer]:
        keys = list(dict.fromkeys(key for key, _ in questions))
        if self._spec.key is KeyKind.EXACT:
            rows = self._rows(database, keys)
            candidates: dict[bytes, list[bytes] | None] = {key: [key] for key in keys}
        else:
            candidates = {key: networks_around(key, self._table.lengths) for key in keys}
            distinct = dict.fromkeys(stored for around in candidates.values() for stored in around or ())
            rows = self._rows(database, list(distinct))
        past = Past(database, self._table.table_id)
        return [self._answer(candidates[key], rows, past, time, pin) for key, time in questions]

    def _rows(self, database: Database, keys: list[bytes]) -> dict[bytes, list[Entry]]:
        begin = prefix(LATEST, self._table.table_id)
        found = database.get_many([begin + key for key in keys])
        return {key: [] if row is None else decode(row) for key, row in zip(keys, found, strict=True)}

    def _answer(
        self,
        candidates: list[bytes] | None,
        rows: Mapping[bytes, list[Entry]],
        past: Past,
        time: int | None,
        pin: Offsets | None,
    ) -> Answer:
        if candidates is None:
            return Status.BAD_KEY, None
        if is_expired(self.floors, time, pin):
            return Status.EXPIRED, None
        # Longest prefix first; a deleted network does not hide a shorter one that is not deleted.
        deleted: Entry | None = None
        for key in candidates:
            entry = past.visible(key, rows[key], time, pin)
            if entry is not None and not entry.flags & TOMBSTONE:
                return Status.HIT, entry
            deleted = deleted or entry
        return (Status.MISS, None) if deleted is None else (Status.DELETED, deleted)

    def _gather(self, answers: Answered, which: pa.Array, columns: Sequence[str]) -> Found:
        """`which`: the index of each key's answer; null for a key that is null or has a null part."""
        hits = answers.payload.is_valid()
        row_of = pc.if_else(hits, pc.subtract(pc.cumulative_sum(hits.cast(pa.int64())), 1), None)
        return Found(
            values=chosen(self._decoded(answers, hits), columns).take(row_of.take(which)),
            status=answers.status.take(which).fill_null(Status.NULL_KEY),
            partition=answers.partition.take(which),
            offset=answers.offset.take(which),
            timestamp=answers.timestamp.take(which),
        )

    def _decoded(self, answers: Answered, hits: pa.BooleanArray) -> pa.StructArray:
        decoded = self._spec.decoder.decode(answers.payload.filter(hits))
        for index, reason in decoded.bad.items():
            # It could be decoded when it was published, so its bytes must have changed.
            partition, offset = (column.filter(hits)[index] for column in (answers.partition, answers.offset))
            raise CorruptState(
                f"a row of table `{self._table.name}` cannot be decoded: {reason}",
                where=f"partition {partition}, offset {offset}",
                next_step="rebuild the table",
            )
        return decoded.rows


def _row_version(key: bytes, entry: Entry) -> RowVersion:
    return RowVersion(key, entry.partition, entry.offset, entry.timestamp, entry.value)

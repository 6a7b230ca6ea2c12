"""Reads a whole table, in columns: for snapshots, and for the comparison with a topic."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores.protocol import KeyKind
from stores.rocks.database import Database
from stores.rocks.layout import (
    HISTORY,
    LAST_POSITION,
    LATEST,
    OF_TABLES,
    TOMBSTONE,
    Entry,
    decode,
    encode,
    end_of,
    prefix,
    unescaped,
)
from stores.rocks.network_rows import network_text
from stores.rocks.quarantine import quarantined_records
from stores.rocks.read.answered import headers_and_payloads
from stores.rocks.read.verify import Verified, require_whole, verify
from stores.rocks.state import TableState
from stores.table import ROW_VERSIONS

_RECORDS_AT_A_TIME = 1 << 14
"""Records of a quarantine, which has room for 16 MiB in all."""
_TAG = 3  # bytes of tag and table number before a key


@dataclass(frozen=True, slots=True)
class WholeTable:
    """One table at one seq. It can be read as long as the snapshot that it was taken from answers."""

    state: TableState
    _database: Callable[[], Database]

    def verify(self) -> Verified:
        """Raises CorruptState if its rows differ from what publications recorded."""
        return verify(self._database(), self.state)

    def newest(self) -> Iterator[pa.RecordBatch]:
        """The newest version of each key and partition (`ROW_VERSIONS`), tombstones too.

        Raises CorruptState at the end if rows are missing: use nothing before it is exhausted.
        """
        found = Verified(0, 0)
        for stored, rows in self._pieces(LATEST):
            found = found.with_rows(stored, rows)
            yield _versions(self._as_in_topic(stored), rows)
        require_whole(found, self.state, self._database().path)

    def past(self) -> Iterator[pa.RecordBatch]:
        """The versions that newer ones superseded and that are still kept."""
        for stored, rows in self._pieces(HISTORY):
            yield _versions(self._as_in_topic(stored), rows)

    def as_stored(self) -> Iterator[pa.RecordBatch]:
        """All versions, newest and past, their keys as the table stores them: those of networks are not text."""
        for tag in (LATEST, HISTORY):
            for stored, rows in self._pieces(tag):
                yield _versions(pa.array(stored, pa.binary()), rows)

    def quarantined(self) -> Iterator[pa.RecordBatch]:
        """The records that could not become row versions, without the reason: an import finds it out again.

        Not those that the topic no longer had when the table was loaded. They may be of a topic that had this name
        before: an import would take the offsets of such a record for those of this topic.
        """
        positions = self.state.positions
        records = (
            record
            for record in quarantined_records(self._database().scan, self.state.name, self.state.table_id)
            if record.arrived >= self.state.loaded_ms and record.offset < positions.get(record.partition, 0)
        )
        while piece := list(islice(records, _RECORDS_AT_A_TIME)):
            columns = {field.name: [getattr(record, field.name) for record in piece] for field in ROW_VERSIONS}
            yield pa.RecordBatch.from_pydict(columns, ROW_VERSIONS)

    def bytes_on_disk(self) -> int:
        """An estimate: a file that begins with rows of one table and ends with another's counts half for each."""
        table_id = self.state.table_id.to_bytes(2, "big")
        ends = [(key, size) for begin, end, size in self._database().files() for key in (begin, end)]
        return sum(size for key, size in ends if key[:1] in OF_TABLES and key[1:_TAG] == table_id) // 2

    def entries(self) -> Iterator[tuple[bytes, list[Entry]]]:
        """Each key as stored, with the newest entry of each of its partitions, in the order of the keys."""
        begin = prefix(LATEST, self.state.table_id)
        for key, row in self._database().scan(begin, end_of(begin)):
            yield key[_TAG:], decode(row)

    def _pieces(self, tag: bytes) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Keys as the table stores them, and their rows."""
        begin = prefix(tag, self.state.table_id)
        for keys, rows in self._database().scan_in_pieces(begin, end_of(begin)):
            is_latest = tag == LATEST
            yield [key[_TAG:] if is_latest else unescaped(key[_TAG : -len(LAST_POSITION)]) for key in keys], rows

    def _as_in_topic(self, stored: list[bytes]) -> pa.BinaryArray:
        is_exact = self.state.key is KeyKind.EXACT
        return pa.array(stored if is_exact else [network_text(key) for key in stored], pa.binary())


def _versions(keys: pa.BinaryArray, rows: list[bytes]) -> pa.RecordBatch:
    split = headers_and_payloads(pa.array(rows, pa.binary()))
    if split is None:
        return _versions(*_one_each(keys, rows))
    headers, payloads = split
    is_tombstone = pa.array((headers["flags"] & TOMBSTONE).astype(bool))
    return pa.RecordBatch.from_arrays(
        [
            keys,
            *(pa.array(np.ascontiguousarray(headers[name])) for name in ("partition", "offset", "timestamp")),
            pc.if_else(is_tombstone, pa.scalar(None, pa.binary()), payloads),
        ],
        schema=ROW_VERSIONS,
    )


def _one_each(keys: pa.BinaryArray, rows: list[bytes]) -> tuple[pa.BinaryArray, list[bytes]]:
    """One row for each entry: some keys are in several partitions."""
    apart = [[encode([entry]) for entry in decode(row)] for row in rows]
    which = [index for index, entries in enumerate(apart) for _ in entries]
    return keys.take(pa.array(which)), [entry for entries in apart for entry in entries]

"""Reads a whole table, in columns: for snapshots, and for the comparison with a topic."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores.protocol import KeyKind
from stores.rocks.database import Database
from stores.rocks.layout import (
    HEADER,
    HEADERS,
    HISTORY,
    LAST_PLACE,
    LATEST,
    OF_TABLES,
    TOMBSTONE,
    Entry,
    decode,
    end_of,
    prefix,
    unescaped,
)
from stores.rocks.network_rows import network_text
from stores.rocks.quarantine import quarantined_records
from stores.rocks.read.verify import Verified, digest_of_rows, require_whole, verify
from stores.rocks.state import TableState
from stores.table import ROW_VERSIONS

_ROWS_AT_A_TIME = 1 << 14
_BYTES_AT_A_TIME = 8 << 20
_TAG = 3  # bytes of tag and table number before a key

T = TypeVar("T")


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
        for piece in self._pieces(LATEST):
            found = found.with_rows(len(piece), digest_of_rows(piece))
            stored = [key[_TAG:] for key, _ in piece]
            yield _versions(self._as_in_topic(stored), [row for _, row in piece])
        require_whole(found, self.state, self._database().path)

    def past(self) -> Iterator[pa.RecordBatch]:
        """The versions that newer ones superseded and that are still kept."""
        for piece in self._pieces(HISTORY):
            stored = [unescaped(key[_TAG : -len(LAST_PLACE)]) for key, _ in piece]
            yield _versions(self._as_in_topic(stored), [row for _, row in piece])

    def as_stored(self) -> Iterator[pa.RecordBatch]:
        """All versions, newest and past, their keys as the table stores them: those of networks are not text."""
        for tag in (LATEST, HISTORY):
            begin = prefix(tag, self.state.table_id)
            pieces = self._database().scan_in_pieces(begin, end_of(begin), _ROWS_AT_A_TIME, _BYTES_AT_A_TIME)
            for keys, rows in pieces:
                is_latest = tag == LATEST
                stored = [key[_TAG:] if is_latest else unescaped(key[_TAG : -len(LAST_PLACE)]) for key in keys]
                yield _versions(pa.array(stored, pa.binary()), rows)

    def quarantined(self) -> Iterator[pa.RecordBatch]:
        """The records that could not become row versions, without the reason: an import finds it out again."""
        records = quarantined_records(self._database().scan, self.state.name, self.state.table_id)
        for piece in _in_pieces(records, lambda record: len(record.key or b"") + len(record.value or b"")):
            columns = ([getattr(record, field.name) for record in piece] for field in ROW_VERSIONS)
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, field.type) for column, field in zip(columns, ROW_VERSIONS, strict=True)],
                schema=ROW_VERSIONS,
            )

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

    def _pieces(self, tag: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        begin = prefix(tag, self.state.table_id)
        rows = self._database().scan(begin, end_of(begin))
        return _in_pieces(rows, lambda row: len(row[0]) + len(row[1]))

    def _as_in_topic(self, stored: list[bytes]) -> pa.BinaryArray:
        is_exact = self.state.key is KeyKind.EXACT
        return pa.array(stored if is_exact else [network_text(key) for key in stored], pa.binary())


def _in_pieces(rows: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Lists of bounded length and size, unless a single row is larger."""
    piece: list[T] = []
    size = 0
    for row in rows:
        piece.append(row)
        size += size_of(row)
        if len(piece) == _ROWS_AT_A_TIME or size >= _BYTES_AT_A_TIME:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _versions(keys: pa.BinaryArray, rows: list[bytes]) -> pa.RecordBatch:
    headers = np.frombuffer(b"".join([row[: HEADER.size] for row in rows]), HEADERS)
    sizes = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    if (headers["size"] + HEADER.size != sizes).any():
        return _versions(*_one_each(keys, rows))
    # Not pc.binary_slice: in Arrow 26 it raises if nothing is left of a value.
    payloads = pa.array([row[HEADER.size :] for row in rows], pa.binary())
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
    apart = [_apart(row) for row in rows]
    which = [index for index, entries in enumerate(apart) for _ in entries]
    return keys.take(pa.array(which)), [entry for entries in apart for entry in entries]


def _apart(row: bytes) -> list[bytes]:
    entries = []
    at = 0
    while at < len(row):
        end = at + HEADER.size + HEADER.unpack_from(row, at)[-1]
        entries.append(row[at:end])
        at = end
    return entries

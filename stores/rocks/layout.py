"""The layout of rows in the database: keys begin with a tag and a table id, values are a header and raw bytes.

    M name                                                the state of the store and of each table (JSON)
    L table key                                           the newest version of each partition that has the key
    H table escaped-key timestamp partition offset        a version that a newer one superseded
    Q table due escaped-key timestamp partition offset    when it may be removed -> offset, timestamp of its successor;
                                                          of a newest version that is a tombstone: its own
    X table partition offset timestamp                    a record in quarantine (quarantine.py)
    C number                                              of earlier releases only: removed when the store is opened

History is ordered by time, so that an as-of look-up is one seek. Within one partition of a key this is also the order
of offsets, unless timestamps went back: then the entry of the newest version is marked `UNORDERED`.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

META = b"M"
LATEST = b"L"
HISTORY = b"H"
QUEUE = b"Q"
QUARANTINE = b"X"
CHANGE_FEED = b"C"
OF_TABLES = (LATEST, HISTORY, QUEUE, QUARANTINE)

TOMBSTONE = 1
HAS_HISTORY = 2
"""Versions of this key and partition may be in the history. Without this flag it need not be searched."""
UNORDERED = 4
"""A version of this key and partition had an earlier timestamp than one before it."""
STICKY = HAS_HISTORY | UNORDERED

HEADER = struct.Struct("<BiqqqI")  # flags, partition, offset, timestamp, arrived, length of the payload
HEADERS = np.dtype(
    [
        ("flags", "u1"),
        ("partition", "<i4"),
        ("offset", "<i8"),
        ("timestamp", "<i8"),
        ("arrived", "<i8"),
        ("size", "<u4"),
    ]
)
"""The same header as a numpy type, for many rows at once."""
_POSITION = struct.Struct(">QIQ")  # timestamp (shifted: it may be negative), partition, offset
_POSITIONS = np.dtype([("timestamp", ">u8"), ("partition", ">u4"), ("offset", ">u8")])
_QUARANTINE_KEY = struct.Struct(">IQQ")  # partition, offset, timestamp (shifted)
_SUCCESSOR = struct.Struct("<qq")
_SUCCESSORS = np.dtype([("offset", "<i8"), ("timestamp", "<i8")])
_SHIFT = 1 << 63
LAST_POSITION = b"\xff" * _POSITION.size


class Entry(NamedTuple):
    """A version of a key, ordered as versions of different partitions are: by time, then by position."""

    timestamp: int
    partition: int
    offset: int
    arrived: int
    flags: int
    payload: bytes

    @property
    def value(self) -> bytes | None:
        return None if self.flags & TOMBSTONE else self.payload


def encode(entries: Iterable[Entry]) -> bytes:
    return b"".join(
        HEADER.pack(e.flags, e.partition, e.offset, e.timestamp, e.arrived, len(e.payload)) + e.payload for e in entries
    )


def headers_of(
    partitions: npt.ArrayLike, offsets: npt.ArrayLike, timestamps: npt.ArrayLike, payloads: pa.Array, arrived: int
) -> npt.NDArray[np.void]:
    """Of versions, with a tombstone for each null."""
    headers = np.empty(len(payloads), HEADERS)
    headers["flags"] = pc.is_null(payloads).to_numpy(zero_copy_only=False) * np.uint8(TOMBSTONE)
    headers["partition"], headers["offset"], headers["timestamp"] = partitions, offsets, timestamps
    headers["arrived"] = arrived
    headers["size"] = pc.fill_null(pc.binary_length(payloads), 0).to_numpy(zero_copy_only=False)
    return headers


def encode_columns(headers: npt.NDArray[np.void], payloads: pa.Array) -> list[bytes]:
    """Rows of one entry each. A null payload is a tombstone's."""
    heads = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(HEADER.size), len(headers), [None, pa.py_buffer(headers.tobytes())]
    )
    rows: list[bytes] = pc.binary_join_element_wise(
        heads.cast(payloads.type), pc.fill_null(payloads, b""), pa.scalar(b"", payloads.type)
    ).to_pylist()
    return rows


def decode(value: bytes) -> list[Entry]:
    """The entries of a row: one, unless the key is in several partitions, which is a fault of its topic."""
    flags, partition, offset, timestamp, arrived, length = HEADER.unpack_from(value)
    if length + HEADER.size == len(value):
        return [Entry(timestamp, partition, offset, arrived, flags, value[HEADER.size :])]
    entries = []
    at = 0
    while at < len(value):
        flags, partition, offset, timestamp, arrived, length = HEADER.unpack_from(value, at)
        at += HEADER.size
        entries.append(Entry(timestamp, partition, offset, arrived, flags, value[at : at + length]))
        at += length
    return entries


def prefix(tag: bytes, table_id: int) -> bytes:
    return tag + table_id.to_bytes(2, "big")


def end_of(a_prefix: bytes) -> bytes:
    """The first key after all that begin with the prefix."""
    stripped = a_prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def table_ranges(table_id: int) -> list[tuple[bytes, bytes]]:
    """All rows of a table, as ranges of keys."""
    return [(begin, end_of(begin)) for begin in (prefix(tag, table_id) for tag in OF_TABLES)]


def table_ids(scan: Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]) -> set[int]:
    """The ids of tables that have any row, found by a few seeks."""
    found = set()
    for tag in OF_TABLES:
        begin = tag
        while (row := next(scan(begin, end_of(tag)), None)) is not None:
            found.add(int.from_bytes(row[0][1:3], "big"))
            begin = end_of(row[0][:3])
    return found


def escaped(key: bytes) -> bytes:
    """An order-preserving encoding in which no key is a prefix of another."""
    return key.replace(b"\0", b"\0\xff") + b"\0\0"


def unescaped(form: bytes) -> bytes:
    return form[:-2].replace(b"\0\xff", b"\0")


def history_prefix(table_id: int, key: bytes) -> bytes:
    return prefix(HISTORY, table_id) + escaped(key)


def position(timestamp: int, partition: int, offset: int) -> bytes:
    return _POSITION.pack(timestamp + _SHIFT, partition, offset)


def history_key(table_id: int, key: bytes, entry: Entry) -> bytes:
    return history_prefix(table_id, key) + position(entry.timestamp, entry.partition, entry.offset)


def up_to(timestamp: int) -> bytes:
    """The last position with this timestamp."""
    return (timestamp + _SHIFT).to_bytes(8, "big") + LAST_POSITION[8:]


def due_prefix(table_id: int, due: int) -> bytes:
    return prefix(QUEUE, table_id) + (due + _SHIFT).to_bytes(8, "big")


def queue_row(table_id: int, key: bytes, old: Entry, successor: Entry, history_ms: int) -> tuple[bytes, bytes]:
    """When a version may be removed: once its successor hides it from every as-of time and pin since the horizon.

    The horizon must have reached the successor's timestamp, and passed the moment at which it arrived: a pin may have
    been taken just before, at that same moment. A table without history has no as-of look-ups, so only the second
    condition applies: otherwise the versions of a producer that writes microseconds would be kept for ever.
    """
    due = max(successor.timestamp, successor.arrived + 1) if history_ms else successor.arrived + 1
    suffix = escaped(key) + position(old.timestamp, old.partition, old.offset)
    return due_prefix(table_id, due) + suffix, _SUCCESSOR.pack(successor.offset, successor.timestamp)


def is_tombstone(row: bytes) -> bool:
    """Whether a row of `LATEST` has one entry, which is a tombstone."""
    return len(row) == HEADER.size and bool(row[0] & TOMBSTONE)


def tombstone_row(table_id: int, key: bytes, entry: Entry, tombstones_ms: int) -> tuple[bytes, bytes]:
    """When this tombstone may be removed, if it is still the newest version of its key by then."""
    suffix = escaped(key) + position(entry.timestamp, entry.partition, entry.offset)
    return due_prefix(table_id, entry.arrived + tombstones_ms) + suffix, _SUCCESSOR.pack(entry.offset, entry.timestamp)


def tombstone_rows(
    table_id: int, keys: Iterable[bytes], headers: npt.NDArray[np.void], tombstones_ms: int
) -> Iterator[tuple[bytes, bytes]]:
    """`tombstone_row` of many, by headers."""
    dues = _shifted(headers["arrived"] + tombstones_ms).astype(">u8")
    queued = prefix(QUEUE, table_id)
    pieces = (_pieces(each.tobytes(), each.itemsize) for each in (dues, _positions(headers), _successors(headers)))
    for key, due, place, itself in zip(keys, *pieces, strict=True):
        yield queued + due + escaped(key) + place, itself


def superseded(
    table_id: int, keys: Iterable[bytes], old: npt.NDArray[np.void], new: npt.NDArray[np.void]
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """`history_key` and `queue_row` of many versions of a table with history, and their successors, by headers."""
    dues = _shifted(np.maximum(new["timestamp"], new["arrived"] + 1)).astype(">u8")
    kept, queued = prefix(HISTORY, table_id), prefix(QUEUE, table_id)
    pieces = (_pieces(each.tobytes(), each.itemsize) for each in (_positions(old), dues, _successors(new)))
    for key, place, due, successor in zip(keys, *pieces, strict=True):
        suffix = escaped(key) + place
        yield kept + suffix, queued + due + suffix, successor


def _positions(headers: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    positions = np.empty(len(headers), _POSITIONS)
    positions["timestamp"], positions["partition"] = _shifted(headers["timestamp"]), headers["partition"]
    positions["offset"] = headers["offset"]
    return positions


def _successors(headers: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    successors = np.empty(len(headers), _SUCCESSORS)
    successors["offset"], successors["timestamp"] = headers["offset"], headers["timestamp"]
    return successors


def _shifted(times: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(times, np.int64).view(np.uint64) ^ np.uint64(_SHIFT)


def _pieces(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def quarantine_key(partition: int, offset: int, timestamp: int) -> bytes:
    return _QUARANTINE_KEY.pack(partition, offset, timestamp + _SHIFT)


def parse_quarantine_key(key: bytes) -> tuple[int, int, int]:
    partition, offset, timestamp = _QUARANTINE_KEY.unpack(key)
    return partition, offset, timestamp - _SHIFT


class Due(NamedTuple):
    """A version that may be removed: its key in the history, and the successor over which the floor must rise."""

    history_key: bytes
    partition: int
    offset: int
    successor_offset: int
    successor_timestamp: int

    @property
    def is_tombstone(self) -> bool:
        """Whether it was the newest version of its key, and a tombstone. It has never been in the history."""
        return self.offset == self.successor_offset

    @property
    def latest_key(self) -> bytes:
        return LATEST + self.history_key[1:3] + self.key

    @property
    def key(self) -> bytes:
        return unescaped(self.history_prefix[3:])

    @property
    def history_prefix(self) -> bytes:
        return self.history_key[: -_POSITION.size]


def parse_due(key: bytes, value: bytes) -> Due:
    _, partition, offset = _POSITION.unpack(key[-_POSITION.size :])
    return Due(HISTORY + key[1:3] + key[11:], partition, offset, *_SUCCESSOR.unpack(value))

"""The quarantine of a table: records that could not become row versions, kept whole beside its rows."""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from stores.protocol import Quarantined
from stores.rocks.digest import digest_of
from stores.rocks.layout import QUARANTINE, end_of, parse_quarantine_key, prefix

Scan = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]

_REASON_LENGTH = 300
_ROW = struct.Struct("<BqII")  # flags, arrived, length of the key, length of the value; then key, value, reason
_NO_KEY, _NO_VALUE = 1, 2


@dataclass(frozen=True, slots=True)
class QuarantineState:
    """How much is in the quarantine of a table at one seq. `kept` and `not_kept` are counts by reason."""

    kept: Mapping[str, int] = field(default_factory=dict)
    not_kept: Mapping[str, int] = field(default_factory=dict)
    """Records that came when the quarantine was full: counted since the table was last loaded."""
    size: int = 0
    digest: int = 0

    @property
    def kept_records(self) -> int:
        return sum(self.kept.values())

    @property
    def records(self) -> int:
        """All records, kept or not."""
        return self.kept_records + sum(self.not_kept.values())


def quarantine_rows(scan: Scan, table_id: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and rows of the records that a table's quarantine keeps, by partition and offset."""
    begin = prefix(QUARANTINE, table_id)
    return ((key[len(begin) :], row) for key, row in scan(begin, end_of(begin)))


def quarantined_records(scan: Scan, table: str, table_id: int) -> Iterator[Quarantined]:
    """The records that a table's quarantine keeps, by partition and offset."""
    return (_decode(table, key, row) for key, row in quarantine_rows(scan, table_id))


def quarantine_digest(rows: Iterable[tuple[bytes, bytes]]) -> int:
    """The digest of keys and rows, over every byte."""
    listed = [key + row for key, row in rows]
    nothing = np.zeros(len(listed), np.int64)
    return digest_of(listed, nothing, nothing)


def encode_record(record: Quarantined) -> bytes:
    flags = (record.key is None) * _NO_KEY | (record.value is None) * _NO_VALUE
    key, value = record.key or b"", record.value or b""
    return _ROW.pack(flags, record.arrived, len(key), len(value)) + key + value + record.reason.encode()


def _decode(table: str, key: bytes, row: bytes) -> Quarantined:
    flags, arrived, key_length, value_length = _ROW.unpack_from(row)
    key_end = _ROW.size + key_length
    value_end = key_end + value_length
    partition, offset, timestamp = parse_quarantine_key(key)
    return Quarantined(
        table,
        partition,
        offset,
        timestamp,
        None if flags & _NO_KEY else row[_ROW.size : key_end],
        None if flags & _NO_VALUE else row[key_end:value_end],
        row[value_end:].decode(),
        arrived,
    )


def reason_of(row: bytes) -> str:
    _, _, key_length, value_length = _ROW.unpack_from(row)
    return row[_ROW.size + key_length + value_length :].decode()


def cut_reason(reason: str) -> str:
    """A reason of bounded length that UTF-8 can hold."""
    return reason[:_REASON_LENGTH].encode("utf-8", "replace").decode()

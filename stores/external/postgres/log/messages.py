"""Takes a piece of the stream apart in columns: pgoutput's messages, without an object for each of them."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_HEADER = 25
"""Bytes before each message of pgoutput: `w`, the place in the log, its end, the server's clock."""
BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE, MESSAGE = (ord(kind) for kind in "BCRIUDTM")
_KEEPALIVE = ord("k")
_EPOCH_US = 946_684_800_000_000
"""PostgreSQL's times begin in the year 2000."""


@dataclass(frozen=True, slots=True)
class ColumnSent:
    name: str
    type_id: int
    type_modifier: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table's shape as the log has it."""

    id: int
    schema: str
    name: str
    columns: tuple[ColumnSent, ...]
    identity: frozenset[str]
    """The columns that the log has of deleted rows."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive messages in one buffer. The arrays have an element per message."""

    data: npt.NDArray[np.uint8]
    at: Numbers
    """Where each message of pgoutput begins: its kind."""
    kind: npt.NDArray[np.uint8]
    ends: Numbers

    def select(self, rows: Numbers | slice) -> "Piece":
        return Piece(self.data, self.at[rows], self.kind[rows], self.ends[rows])

    def number(self, at: Numbers, size: int) -> Numbers:
        """Big-endian numbers at these places."""
        found = np.zeros(len(at), np.int64)
        for byte in range(size):
            found = found << 8 | self.data[at + byte]
        return found

    def relation(self, index: int) -> Relation:
        return _relation(self.data[self.at[index] : self.ends[index]].tobytes())

    def truncated(self, index: int) -> tuple[int, ...]:
        raw = self.data[self.at[index] : self.ends[index]].tobytes()
        (count,) = struct.unpack_from(">i", raw, 1)
        return struct.unpack_from(f">{count}I", raw, 6)


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions of a piece, in the order of their commits."""

    xid: Numbers
    commit: Numbers
    """Where the commit is in the log."""
    time_us: Numbers
    """When, since 1970."""

    def after(self, others: "Transactions") -> "Transactions":
        """Those others, then these."""
        pairs = ((others.xid, self.xid), (others.commit, self.commit), (others.time_us, self.time_us))
        return Transactions(*(np.concatenate(pair) for pair in pairs))

    @property
    def last(self) -> "Transactions":
        """Only the last one, if there is any."""
        return Transactions(self.xid[-1:], self.commit[-1:], self.time_us[-1:])


def taken_apart(messages: Sequence[bytes]) -> tuple[Piece, int]:
    """The messages of pgoutput, and up to where the server had read its log when it last said so."""
    data = np.frombuffer(b"".join(messages), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
    is_sign = data[begins] == _KEEPALIVE
    signs = begins[is_sign]
    read_to = 0
    if len(signs):
        read_to = int.from_bytes(data[signs[-1] + 1 : signs[-1] + 9].tobytes(), "big")
    at = begins[~is_sign] + _HEADER
    return Piece(data, at, data[at], ends[~is_sign]), read_to


def transactions_of(piece: Piece) -> tuple[Transactions, Numbers]:
    """Those that begin in the piece, and for each message the number of its transaction: -1 before the first one."""
    begin = piece.kind == BEGIN
    at = piece.at[begin]
    commit, time, xid = (piece.number(at + offset, size) for offset, size in ((1, 8), (9, 8), (17, 4)))
    return Transactions(xid, commit, time + _EPOCH_US), np.cumsum(begin) - 1


def ends_of(piece: Piece) -> Numbers:
    """Where the log goes on after each message that ends something: a commit, or a message of its own."""
    is_end = (piece.kind == COMMIT) | (piece.kind == MESSAGE)
    offset = np.where(piece.kind[is_end] == COMMIT, 10, 2)
    return piece.number(piece.at[is_end] + offset, 8)


def _relation(raw: bytes) -> Relation:
    (number,) = struct.unpack_from(">I", raw, 1)
    schema, at = _text(raw, 5)
    name, at = _text(raw, at)
    (count,) = struct.unpack_from(">H", raw, at + 1)
    at += 3
    columns, identity = [], set()
    for _ in range(count):
        is_of_identity = bool(raw[at] & 1)
        column, at = _text(raw, at + 1)
        if is_of_identity:
            identity.add(column)
        kind, modifier = struct.unpack_from(">Ii", raw, at)
        columns.append(ColumnSent(column, kind, modifier))
        at += 8
    return Relation(number, schema, name, tuple(columns), frozenset(identity))


def _text(raw: bytes, at: int) -> tuple[str, int]:
    end = raw.index(0, at)
    return raw[at:end].decode(), end + 1

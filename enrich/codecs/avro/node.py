"""Nodes of a compiled schema, and the leaf nodes. Each reads many records at once, or a single doubtful one.

A node without a column (`kind` None) only skips the bytes. What `many` returns for a bad record has no meaning; `one`
raises Unfit for it, with the reason.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from enrich.codecs.avro.cursor import Cursor
from enrich.codecs.avro.record import RecordBytes
from enrich.codecs.avro.schemas.fit import Fit
from enrich.codecs.unfit import Unfit


class Node(Protocol):
    @property
    def kind(self) -> pa.DataType | None: ...

    def many(self, cursor: Cursor) -> pa.Array:
        """Reads the value of every record and advances the cursor. The result has no meaning without a column."""

    def one(self, record: RecordBytes) -> Any:
        """The value as Arrow accepts it for the column. Raises Unfit."""


@dataclass(frozen=True)
class Boolean:
    kind: pa.DataType | None

    def many(self, cursor: Cursor) -> pa.Array:
        starts, _ = cursor.fixed(1)
        byte = cursor.data[starts]
        cursor.fail(byte > 1)
        return pa.array(byte == 1) if self.kind is not None else None

    def one(self, record: RecordBytes) -> Any:
        byte = record.take(1)[0]
        if byte > 1:
            raise Unfit("neither true nor false")
        return byte == 1


@dataclass(frozen=True)
class WholeNumber:
    bits: int
    fit: Fit | None

    @property
    def kind(self) -> pa.DataType | None:
        return self.fit and self.fit.kind

    def many(self, cursor: Cursor) -> pa.Array:
        values = cursor.whole_number(bits=self.bits)
        return self.fit.many(pa.array(values), cursor) if self.fit else None

    def one(self, record: RecordBytes) -> Any:
        value = record.whole_number(bits=self.bits)
        return self.fit.one(value) if self.fit else None


@dataclass(frozen=True)
class Floating:
    bits: int
    kind: pa.DataType | None

    def many(self, cursor: Cursor) -> pa.Array:
        starts, _ = cursor.fixed(self.bits // 8)
        if self.kind is None:
            return None
        return pa.array(cursor.numbers(starts, f"<f{self.bits // 8}")).cast(self.kind)

    def one(self, record: RecordBytes) -> Any:
        return float(np.frombuffer(record.take(self.bits // 8), f"<f{self.bits // 8}")[0])


@dataclass(frozen=True)
class Bytes:
    """bytes and string; fixed, if `size` is set."""

    size: int | None
    fit: Fit | None

    @property
    def kind(self) -> pa.DataType | None:
        return self.fit and self.fit.kind

    def many(self, cursor: Cursor) -> pa.Array:
        starts, ends = cursor.span() if self.size is None else cursor.fixed(self.size)
        return self.fit.many(cursor.slices(starts, ends), cursor) if self.fit else None

    def one(self, record: RecordBytes) -> Any:
        value = record.span() if self.size is None else record.take(self.size)
        return self.fit.one(value) if self.fit else None


@dataclass(frozen=True)
class Symbol:
    """An enum. None: a symbol that the table's own schema does not have."""

    symbols: tuple[str | None, ...]
    kind: pa.DataType | None

    def many(self, cursor: Cursor) -> pa.Array:
        index = cursor.whole_number(bits=32)
        cursor.fail((index < 0) | (index >= len(self.symbols)))
        if self.kind is None:
            return None
        symbols = pa.array(self.symbols, self.kind)
        texts = symbols.take(pa.array(np.where(cursor.bad, 0, index)))
        cursor.fail_where(texts, pa.compute.is_null)
        return texts

    def one(self, record: RecordBytes) -> Any:
        index = record.whole_number(bits=32)
        if not 0 <= index < len(self.symbols):
            raise Unfit("no symbol of the enum")
        if self.kind is None:
            return None
        symbol = self.symbols[index]
        if symbol is None:
            raise Unfit("a symbol that the table's schema does not have")
        return symbol


@dataclass(frozen=True)
class Null:
    kind: pa.DataType | None

    def many(self, cursor: Cursor) -> pa.Array:
        return pa.nulls(len(cursor), self.kind) if self.kind is not None else None

    def one(self, record: RecordBytes) -> Any:  # noqa: ARG002 - it has no bytes
        return None


@dataclass(frozen=True)
class Misfit:
    """A type that cannot fill the column, such as a branch of a union: records that have it are bad."""

    reason: str
    kind: pa.DataType

    def many(self, cursor: Cursor) -> pa.Array:
        cursor.fail(np.ones(len(cursor), np.bool_))
        return pa.nulls(len(cursor), self.kind)

    def one(self, record: RecordBytes) -> Any:  # noqa: ARG002 - it is not read
        raise Unfit(self.reason)

"""Columns in a segment: written one batch at a time, then mapped, and read by row numbers.

Text and bytes, which most tables consist of, have a form of their own (text.py). All others have Arrow's layout.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from stores.segments.loops.arrow_columns import ArrowWriter, Stream, column_of, narrow, wide
from stores.segments.loops.compiled import Bytes, Integers
from stores.segments.loops.text import TextColumn, TextWriter


class Column(Protocol):
    """A column that rows can be taken from."""

    def take(self, rows: Integers) -> pa.Array:
        """The values of these rows, in the table's type; null for a row below 0. Raises IndexError if the column is
        damaged."""


class ColumnWriter(Protocol):
    def write(self, array: pa.Array, /) -> None: ...

    def finish(self) -> None: ...


class ArrowColumn:
    """A column in Arrow's layout; its offsets may be wider than those of the table's type."""

    def __init__(self, kind: pa.DataType, array: pa.Array) -> None:
        self._kind = kind
        self._array = array

    def take(self, rows: Integers) -> pa.Array:
        is_missing = rows < 0
        indices = pa.array(rows, mask=is_missing) if is_missing.any() else pa.array(rows)
        return narrow(self._array.take(indices), self._kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def new_column(kind: pa.DataType, new_stream: Callable[[], Stream]) -> ColumnWriter:
    """Writes a column of a table. Streams are created in the order in which `open_column` takes their bytes."""
    return TextWriter(new_stream) if _is_text(kind) else ArrowWriter(wide(kind), new_stream)


def open_column(kind: pa.DataType, rows: int, sections: Iterator[Bytes]) -> Column:
    """A column over its bytes in the segment; nothing is copied. Raises IndexError for a damaged one."""
    if _is_text(kind):
        return TextColumn(kind, next(sections), next(sections))
    return ArrowColumn(kind, column_of(wide(kind), rows, (pa.py_buffer(section) for section in sections)))

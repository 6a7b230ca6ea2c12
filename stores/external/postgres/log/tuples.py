"""The rows in a piece's messages as columns of text. Each column of all rows is walked over at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stores.external.postgres.log.messages import DELETE, INSERT, UPDATE, Numbers, Piece

_TEXT, _UNCHANGED = ord("t"), ord("u")
_NEW = ord("N")
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cells:
    """A row's columns in the buffer. The arrays have a row per row of the table, and a column per column of it."""

    begin: Numbers
    end: Numbers
    is_text: Flags
    is_unchanged: Flags
    """A large value that the change did not touch: the log does not have it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one table, in the order of the log."""

    piece: Piece
    """Only these changes."""
    transaction: Numbers
    new: Cells
    """Of a deletion: its old row."""
    old: Cells
    """As far as the replica identity has it: see `has_old`."""
    has_old: Flags

    @property
    def is_delete(self) -> Flags:
        return np.asarray(self.piece.kind == DELETE)

    @property
    def is_insert(self) -> Flags:
        return np.asarray(self.piece.kind == INSERT)


def changes_of(piece: Piece, transaction: Numbers, relation: int, columns: int) -> Changes:
    """The changes of a table with so many columns."""
    wanted = (piece.kind == INSERT) | (piece.kind == UPDATE) | (piece.kind == DELETE)
    rows = np.flatnonzero(wanted)
    rows = rows[piece.number(piece.at[rows] + 1, 4) == relation]
    chosen = piece.select(rows)
    at = chosen.at + 5
    has_old = chosen.data[at] != _NEW
    cells = _empty(len(rows), columns)
    after = at.copy()
    old_rows = np.flatnonzero(has_old)
    after[old_rows] = _walked(chosen, at[old_rows], cells, old_rows, columns)
    new = _empty(len(rows), columns)
    new_rows = np.flatnonzero(chosen.kind != DELETE)
    _walked(chosen, after[new_rows], new, new_rows, columns)
    deleted = np.flatnonzero(chosen.kind == DELETE)
    for mine, its in ((new.begin, cells.begin), (new.end, cells.end)):
        mine[deleted] = its[deleted]
    new.is_text[deleted] = cells.is_text[deleted]
    _fill_in(new, cells, has_old)
    return Changes(chosen, transaction[rows], new, cells, has_old)


def column_of(piece: Piece, cells: Cells, column: int) -> pa.StringArray:
    """A column's texts, null where a row has none. Copied by Arrow: no object is made for a value."""
    is_text = cells.is_text[:, column]
    begin, end = cells.begin[:, column], cells.end[:, column]
    rows = len(begin)
    # Values and what is between them are the elements of one array over the buffer; every second one is taken.
    order = None
    if rows > 1 and bool((begin[1:] < end[:-1]).any()):  # of old and new rows both: not in the buffer's order
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
    bounds = np.empty(2 * rows + 1, np.int64)
    bounds[0:-1:2], bounds[1::2] = begin, end
    bounds[-1] = end[-1] if rows else 0
    texts = pa.Array.from_buffers(
        pa.large_string(), 2 * rows, [None, pa.py_buffer(np.ascontiguousarray(bounds)), pa.py_buffer(piece.data)]
    )
    places = 2 * np.arange(rows)
    if order is not None:
        at = np.empty(rows, np.int64)
        at[order] = places
        places = at
    return texts.take(pa.array(places, mask=~is_text)).cast(pa.string())


def differs(piece: Piece, changes: Changes, column: int) -> Flags:
    """Where a column's old value, if the log has it, is another than the new one."""
    old, new = column_of(piece, changes.old, column), column_of(piece, changes.new, column)
    same = np.array(pc.equal(old, new).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    return changes.has_old & changes.old.is_text[:, column] & ~same


def _empty(rows: int, columns: int) -> Cells:
    numbers = np.zeros((2, rows, columns), np.int64)
    flags = np.zeros((2, rows, columns), np.bool_)
    return Cells(numbers[0], numbers[1], flags[0], flags[1])


def _walked(piece: Piece, at: Numbers, cells: Cells, rows: Numbers, columns: int) -> Numbers:
    """Fills in the cells of rows whose tuples begin at these places, and returns where they end."""
    if not len(rows):
        return at
    at = at + 3
    for column in range(columns):
        kind = piece.data[at]
        is_text = kind == _TEXT
        at = at + 1
        length = np.zeros(len(at), np.int64)
        length[is_text] = piece.number(at[is_text], 4)
        at = at + 4 * is_text
        cells.begin[rows, column] = at
        at = at + length
        cells.end[rows, column] = at
        cells.is_text[rows, column] = is_text
        cells.is_unchanged[rows, column] = kind == _UNCHANGED
    return at


def _fill_in(new: Cells, old: Cells, has_old: Flags) -> None:
    """Under REPLICA IDENTITY FULL the old row has what the new one leaves out."""
    known = new.is_unchanged & old.is_text & has_old[:, None]
    if known.any():
        new.begin[known], new.end[known] = old.begin[known], old.end[known]
        new.is_text[known], new.is_unchanged[known] = True, False

"""Turns the versions that answer into the result of a look-up: status, position and the chosen columns."""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.segments.layout import NO_ROW
from stores.segments.loops.columns import Column
from stores.segments.loops.compiled import Flags, Records
from stores.table import TIMESTAMP, Found, Status

ANSWER = np.dtype(
    [
        ("offset", "<i8"),
        ("timestamp", "<i8"),
        ("row", "<i4"),
        ("partition", "<i4"),
        ("segment", "<i4"),  # -1: no version answers
        ("status", "<i4"),  # the status if no version answers
    ],
    align=True,
)
_NOBODY = np.array([(0, 0, NO_ROW, 0, -1, Status.MISS)], ANSWER)


def no_answers(count: int) -> Records:
    return np.repeat(_NOBODY, count)


class Columns(Protocol):
    def __call__(self, segment: int, name: str) -> Column: ...


def found(answers: Records, fields: Sequence[pa.Field], column: Columns) -> Found:
    """The answers in columns. `column` returns a column of a segment, given the segment's number."""
    is_known = answers["segment"] >= 0
    is_hit = answers["row"] >= 0
    status = np.where(is_known, np.where(is_hit, Status.HIT, Status.DELETED), answers["status"]).astype(np.int8)
    known, hits = _bitmap(is_known), _bitmap(is_hit)
    gather = _Gather(answers, is_hit)
    children = [gather.take(functools.partial(column, name=field.name)) for field in fields]
    values = pa.StructArray.from_buffers(pa.struct(list(fields)), len(answers), [hits], children=children)
    return Found(
        values=values,
        status=_array(pa.int8(), status, None),
        partition=_array(pa.int32(), answers["partition"], known),
        offset=_array(pa.int64(), answers["offset"], known),
        timestamp=_array(TIMESTAMP, answers["timestamp"], known),
    )


class _Gather:
    """Takes the rows of all answers out of a column, in order, from whatever segments they are in."""

    def __init__(self, answers: Records, is_hit: Flags) -> None:
        segments = answers["segment"]
        rows = answers["row"].astype(np.int64)
        used = np.flatnonzero(np.bincount(segments[is_hit])).tolist() or [0]
        self._order: pa.Array | None = None
        if len(used) == 1:
            self._pieces = [(used[0], rows)]
            return
        mine = [np.flatnonzero(is_hit & (segments == segment)) for segment in used]
        self._pieces = [(segment, rows[places]) for segment, places in zip(used, mine, strict=True)]
        order = np.zeros(len(answers), np.int64)
        order[np.concatenate(mine)] = np.arange(int(is_hit.sum()))
        self._order = pa.array(order) if is_hit.all() else pa.array(order, mask=~is_hit)

    def take(self, column: Callable[[int], Column]) -> pa.Array:
        pieces = [column(segment).take(rows) for segment, rows in self._pieces]
        return pieces[0] if self._order is None else pa.concat_arrays(pieces).take(self._order)


def _bitmap(flags: Flags) -> pa.Buffer | None:
    return None if flags.all() else pa.py_buffer(np.packbits(flags, bitorder="little"))


def _array(kind: pa.DataType, values: npt.NDArray[np.integer], validity: pa.Buffer | None) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])

"""Converts Avro values to column values: whole arrays, marking values that do not fit, and single values."""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs import scalars
from enrich.codecs.avro.cursor import Cursor
from enrich.codecs.rows import extents
from enrich.codecs.unfit import Unfit


@dataclass(frozen=True)
class Fit:
    kind: pa.DataType
    many: Callable[[pa.Array, Cursor], pa.Array]
    one: Callable[[Any], Any]


def integer(kind: pa.DataType) -> Fit:
    one = scalars.integer(kind)
    bits = kind.bit_width

    def many(values: pa.Array, cursor: Cursor) -> pa.Array:
        if bits < 64:
            cursor.fail_where(values, _outside(-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        return values.cast(kind, safe=False)

    return Fit(kind, many, one)


def floating(kind: pa.DataType) -> Fit:
    # Integers go through float64, so that `many` rounds as `one` does.
    return Fit(kind, lambda values, _: values.cast(pa.float64(), safe=False).cast(kind), float)


def date(kind: pa.DataType) -> Fit:
    epoch = dt.date(1970, 1, 1)
    first, last = ((day - epoch).days for day in (dt.date.min, dt.date.max))

    def many(values: pa.Array, cursor: Cursor) -> pa.Array:
        cursor.fail_where(values, _outside(first, last))
        return values.cast(pa.int32(), safe=False).cast(kind)

    def one(value: int) -> int:
        if not first <= value <= last:
            raise Unfit("a date outside the years 1 to 9999")
        return value

    return Fit(kind, many, one)


_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_FIRST, _LAST = ((time - _EPOCH) // _MICROSECOND for time in (dt.datetime.min, dt.datetime.max))


def timestamp(kind: pa.DataType, microseconds: int, divisor: int = 1) -> Fit:
    """For a unit of `microseconds` / `divisor` microseconds."""
    # A long of nanoseconds only covers the years 1677 to 2262.
    first = max(-(-_FIRST * divisor // microseconds), -(2**63))
    last = min(_LAST * divisor // microseconds, 2**63 - 1)

    def many(values: pa.Array, cursor: Cursor) -> pa.Array:
        cursor.fail_where(values, _outside(first, last))
        numbers = values.to_numpy()
        if divisor > 1:
            numbers = numbers // divisor
        elif microseconds > 1:
            numbers = numbers * microseconds
        return pa.array(numbers).cast(kind)

    def one(value: int) -> int:
        if not first <= value <= last:
            raise Unfit("a time outside the years 1 to 9999")
        return value * microseconds // divisor

    return Fit(kind, many, one)


def binary(kind: pa.DataType) -> Fit:
    return Fit(kind, lambda values, _: values, lambda value: value)


def text(kind: pa.DataType) -> Fit:
    def many(values: pa.BinaryArray, cursor: Cursor) -> pa.Array:
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            return _one_by_one(values, cursor, kind, one)

    def one(value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Unfit("text that is not UTF-8") from None

    return Fit(kind, many, one)


def uuid_text(kind: pa.DataType) -> Fit:
    def one(value: bytes) -> str:
        return str(uuid.UUID(bytes=value))

    def many(values: pa.BinaryArray, cursor: Cursor) -> pa.Array:
        return _one_by_one(values, cursor, kind, lambda value: one(value) if len(value) == 16 else None)

    return Fit(kind, many, one)


def decimal(kind: pa.Decimal128Type, scale: int) -> Fit:
    """From a big-endian two's complement number in units of 10 to the power of -scale."""
    fits = scalars.decimal(kind)
    misfit = f"decimal({kind.precision},{kind.scale}) cannot hold the value"

    def one(value: bytes) -> Decimal:
        if len(value) > 16 and len(value.lstrip(b"\0" if value[0] < 0x80 else b"\xff")) > 16:
            raise Unfit(misfit)
        number = Decimal(int.from_bytes(value, "big", signed=True))
        result: Decimal = fits(number.scaleb(-scale, scalars.WIDE))
        return result

    def many(values: pa.BinaryArray, cursor: Cursor) -> pa.Array:
        numbers, too_long = _little_endian(values)
        cursor.fail(too_long)
        wide = pa.Decimal128Array.from_buffers(pa.decimal128(38, scale), len(values), [None, pa.py_buffer(numbers)])
        try:
            # decimal256 holds any of them at any scale, and the cast back checks the precision.
            return wide.cast(pa.decimal256(76, scale)).cast(pa.decimal256(76, max(kind.scale, scale))).cast(kind)
        except pa.ArrowInvalid:
            return _one_by_one(values, cursor, kind, one)

    return Fit(kind, many, one)


def _little_endian(values: pa.BinaryArray) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The values as little-endian numbers of 16 bytes, and which values are longer."""
    content, starts, ends = extents(values)
    length = ends - starts
    numbers = np.zeros((len(values), 16), np.uint8)
    some = np.flatnonzero(length > 0)
    numbers[some[content[starts[some]] >= 0x80]] = 0xFF
    for index in range(min(16, int(length.max(initial=0)))):
        long_enough = np.flatnonzero(length > index)
        numbers[long_enough, index] = content[ends[long_enough] - 1 - index]
    return numbers, length > 16


def _outside(first: int, last: int) -> Callable[[pa.Array], pa.BooleanArray]:
    return lambda values: pc.or_(pc.less(values, first), pc.greater(values, last))


def _one_by_one(values: pa.BinaryArray, cursor: Cursor, kind: pa.DataType, one: Callable[[bytes], object]) -> pa.Array:
    misfit = np.zeros(len(values), np.bool_)
    converted = []
    for index, value in enumerate(values.to_pylist()):
        try:
            converted.append(one(value))
        except Unfit:
            misfit[index] = True
            converted.append(None)
    cursor.fail(misfit)
    return pa.array(converted, kind)

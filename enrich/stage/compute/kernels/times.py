"""Times and dates, all in UTC."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.civil import Whole, civil_of, days_of
from enrich.stage.compute.kernels.values import Bits, Kernel, nulls, numbers, on_columns
from enrich.stage.compute.nodes import Call

_MICROS = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _MICROS, 3600 * _MICROS, 86_400 * _MICROS
_WEEK = 7 * _DAY
_FIRST_DAY, _LAST_DAY, _LAST_YEAR = -719_528, 2_932_896, 9999
"""Of the years 0 and 9999."""
_LIMITS = np.iinfo(np.int64)
_WEEK_OF_EPOCH = 3
"""1970 begins on a Thursday, three days after its week."""

UNITS: Mapping[str, int | str] = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "Y"),
    "QUARTER": "Q",
    **dict.fromkeys(("MONTH", "MON", "MM"), "M"),
    "WEEK": _WEEK,
    **dict.fromkeys(("DAY", "DD"), _DAY),
    "HOUR": _HOUR,
    "MINUTE": _MINUTE,
    "SECOND": _MICROS,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
"""What `date_trunc` takes, in capitals: as microseconds, or by a letter."""


def _multiplied(whole: Whole, factor: int, mask: Bits | None) -> pa.Array:
    """In 64 bits. Null for those that are too large."""
    is_large = (whole > _LIMITS.max // factor) | (whole < -(-_LIMITS.min // factor))
    found = np.where(is_large, 0, whole) * factor
    return pa.array(found, pa.int64(), mask=is_large if mask is None else mask | is_large)


def _times_of(factor: int) -> Kernel:
    """Whole numbers as times, so many microseconds each. Null for those that are too large."""

    def answered(call: Call, values: list[pa.Array]) -> pa.Array:
        return _multiplied(numbers(values[0]).astype(np.int64), factor, nulls(values[0])).cast(call.kind)

    return on_columns(answered)


def _time_of_seconds(call: Call, values: list[pa.Array]) -> pa.Array:
    """The last time that there is for numbers that are too large."""
    whole = numbers(values[0]).astype(np.int64)
    most, least = _LIMITS.max // _MICROS, -(-_LIMITS.min // _MICROS)
    found = np.where(whole > most, _LIMITS.max, np.where(whole < least, _LIMITS.min, whole * _MICROS))
    return pa.array(found, pa.int64(), mask=nulls(values[0])).cast(call.kind)


def _micros(column: pa.Array) -> Whole:
    return numbers(column.cast(pa.int64())).astype(np.int64)


def _whole_of(divisor: int) -> Kernel:
    def answered(call: Call, values: list[pa.Array]) -> pa.Array:
        found = np.floor_divide(_micros(values[0]), divisor).astype(call.kind.to_pandas_dtype())
        return pa.array(found, call.kind, mask=nulls(values[0]))

    return on_columns(answered)


def _floating_seconds(call: Call, values: list[pa.Array]) -> pa.Array:
    found = (_micros(values[0]) / np.float64(_MICROS)).astype(call.kind.to_pandas_dtype())
    return pa.array(found, call.kind, mask=nulls(values[0]))


def _date(call: Call, values: list[pa.Array]) -> pa.Array:
    days = np.floor_divide(_micros(values[0]), _DAY).astype(np.int32)
    return pa.array(days, pa.int32(), mask=nulls(values[0])).cast(call.kind)


def _time_of_date(call: Call, values: list[pa.Array]) -> pa.Array:
    days = numbers(values[0].cast(pa.int32())).astype(np.int64)
    return _multiplied(days, _DAY, nulls(values[0])).cast(call.kind)


def _truncated(call: Call, values: list[pa.Array]) -> pa.Array:
    """`options`: the unit. Null for the few times whose unit begins before the first one of all."""
    unit = UNITS[call.options[0]]
    micros = _micros(values[0])
    if isinstance(unit, int):
        # Two steps: a sum would have to be larger than the last time.
        found = micros - (micros % unit + (_WEEK_OF_EPOCH * _DAY if unit == _WEEK else 0)) % unit
    else:
        found = _first_days(micros // _DAY, unit) * _DAY
    is_before = found > micros
    mask = nulls(values[0])
    return pa.array(found, pa.int64(), mask=is_before if mask is None else mask | is_before).cast(call.kind)


def _first_days(days: Whole, unit: str) -> Whole:
    year, month, _ = civil_of(days)
    first = {"Y": np.ones_like(month), "Q": month - (month - 1) % 3, "M": month}[unit]
    return days_of(year, first, np.ones_like(month))


def _printed_date(_: Call, values: list[pa.Array]) -> pa.Array:
    return _printed(values[0], numbers(values[0].cast(pa.int32())).astype(np.int64))


def _printed_time(_: Call, values: list[pa.Array]) -> pa.Array:
    """Without zeros at the end of a second's parts, and without a point if there are none."""
    # Without a zone, which is UTC: Arrow takes 40 times as long to write a time with one (measured).
    text = _printed(values[0].cast(pa.timestamp("us")), _micros(values[0]) // _DAY)
    return pc.ascii_rtrim(pc.ascii_rtrim(text, characters="0"), characters=".")


def _printed(column: pa.Array, days: Whole) -> pa.StringArray:
    is_odd = (days < _FIRST_DAY) | (days > _LAST_DAY)
    if not is_odd.any():
        return column.cast(pa.string())
    # Arrow has no years of more than 16 bits. A time of the same day of 1970 has the same text behind its date.
    shift = pa.array(np.where(is_odd, -days, 0))
    near = _shifted(column, shift)
    behind = pc.utf8_slice_codeunits(near.cast(pa.string()), start=len("1970-01-01"))
    dates = pa.array([_date_text(*date) for date in zip(*map(np.ndarray.tolist, civil_of(days[is_odd])), strict=True)])
    mask = pa.array(is_odd)
    whole = pc.binary_join_element_wise(dates, behind.filter(mask), "")
    return pc.replace_with_mask(near.cast(pa.string()), mask, whole)


def _shifted(column: pa.Array, days: pa.Int64Array) -> pa.Array:
    if pa.types.is_date(column.type):
        return pc.add(column.cast(pa.int32()).cast(pa.int64()), days).cast(pa.int32()).cast(column.type)
    return pc.add(column.cast(pa.int64()), pc.multiply(days, _DAY)).cast(column.type)


def _date_text(year: int, month: int, day: int) -> str:
    """Years of more than four digits have a sign."""
    sign = "-" if year < 0 else "+" if year > _LAST_YEAR else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _date_part(index: int) -> Kernel:
    """Of year, month and day."""

    def answered(call: Call, values: list[pa.Array]) -> pa.Array:
        part = civil_of(numbers(values[0].cast(pa.int32())))[index]
        return pa.array(part.astype(np.int32), call.kind, mask=nulls(values[0]))

    return on_columns(answered)


def _time_part(unit: int, whole: int) -> Kernel:
    """How many units have gone by since the beginning of the larger one."""

    def answered(call: Call, values: list[pa.Array]) -> pa.Array:
        part = _micros(values[0]) % whole // unit
        return pa.array(part.astype(np.int32), call.kind, mask=nulls(values[0]))

    return on_columns(answered)


TIMES: Mapping[str, Kernel] = {
    "time_of_seconds": on_columns(_time_of_seconds),
    "seconds_as_time": _times_of(_MICROS),
    "millis_as_time": _times_of(1000),
    "micros_as_time": _times_of(1),
    "seconds_of_time": _whole_of(_MICROS),
    "millis_of_time": _whole_of(1000),
    "micros_of_time": _whole_of(1),
    "floating_of_time": on_columns(_floating_seconds),
    "date_of_time": on_columns(_date),
    "time_of_date": on_columns(_time_of_date),
    "truncated": on_columns(_truncated),
    "printed_date": on_columns(_printed_date),
    "printed_time": on_columns(_printed_time),
    "year": _date_part(0),
    "month": _date_part(1),
    "day": _date_part(2),
    "hour": _time_part(_HOUR, _DAY),
    "minute": _time_part(_MINUTE, _HOUR),
    "second": _time_part(_MICROS, _MINUTE),
}

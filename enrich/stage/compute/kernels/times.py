"""Times and dates, all in UTC."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, Value, nulls, numbers, on_columns
from enrich.stage.compute.nodes import Call

_MICROS = 1_000_000
_DAY = 86_400 * _MICROS
_LIMITS = np.iinfo(np.int64)
_WEEK_OF_EPOCH = 3
"""1970 begins on a Thursday, three days after its week."""

UNITS: Mapping[str, int | str] = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "Y"),
    "QUARTER": "3M",
    **dict.fromkeys(("MONTH", "MON", "MM"), "M"),
    "WEEK": 7 * _DAY,
    **dict.fromkeys(("DAY", "DD"), _DAY),
    "HOUR": 3600 * _MICROS,
    "MINUTE": 60 * _MICROS,
    "SECOND": _MICROS,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}
"""What `date_trunc` takes, in capitals: as microseconds, or as numpy calls it."""


def _times_of(factor: int) -> Kernel:
    """Whole numbers as times, so many microseconds each. Null for those that are too large."""

    def answered(call: Call, values: list[pa.Array]) -> pa.Array:
        whole = numbers(values[0]).astype(np.int64)
        is_large = (whole > _LIMITS.max // factor) | (whole < -(-_LIMITS.min // factor))
        mask = nulls(values[0])
        found = np.where(is_large, 0, whole) * factor
        return pa.array(found, pa.int64(), mask=is_large if mask is None else mask | is_large).cast(call.kind)

    return on_columns(answered)


def _time_of_seconds(call: Call, values: list[pa.Array]) -> pa.Array:
    """The last time that there is for numbers that are too large."""
    whole = numbers(values[0]).astype(np.int64)
    most, least = _LIMITS.max // _MICROS, -(-_LIMITS.min // _MICROS)
    found = np.where(whole > most, _LIMITS.max, np.where(whole < least, _LIMITS.min, whole * _MICROS))
    return pa.array(found, pa.int64(), mask=nulls(values[0])).cast(call.kind)


def _micros(column: pa.Array) -> np.ndarray:
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
    micros = numbers(values[0].cast(pa.int32())).astype(np.int64) * _DAY
    return pa.array(micros, pa.int64(), mask=nulls(values[0])).cast(call.kind)


def _truncated(call: Call, values: list[pa.Array]) -> pa.Array:
    """`options`: the unit."""
    unit = UNITS[call.options[0]]
    micros = _micros(values[0])
    if isinstance(unit, str):
        found = micros.view("M8[us]").astype(f"M8[{unit}]").astype("M8[us]").astype(np.int64)
    else:
        shift = _WEEK_OF_EPOCH * _DAY if unit == 7 * _DAY else 0
        found = micros - (micros + shift) % unit
    return pa.array(found, pa.int64(), mask=nulls(values[0])).cast(call.kind)


def _printed_date(_: Call, values: Sequence[Value]) -> Value:
    return values[0].cast(pa.string())


def _printed_time(_: Call, values: Sequence[Value]) -> Value:
    """Without zeros at the end of a second's parts, and without a point if there are none."""
    # Without a zone, which is UTC: Arrow takes 40 times as long to write a time with one (measured).
    text = values[0].cast(pa.timestamp("us")).cast(pa.string())
    return pc.ascii_rtrim(pc.ascii_rtrim(text, characters="0"), characters=".")


def _part(take: Callable[[Value], Value]) -> Kernel:
    def answered(call: Call, values: Sequence[Value]) -> Value:
        return take(values[0]).cast(call.kind)

    return answered


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
    "printed_date": _printed_date,
    "printed_time": _printed_time,
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
}

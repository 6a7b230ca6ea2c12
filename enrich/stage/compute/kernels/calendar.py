"""Dates and times read from text: Spark's casts to dates, and patterns of Java."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.civil import Whole, days_of, exists
from enrich.stage.compute.kernels.values import Bits, Kernel, on_columns
from enrich.stage.compute.nodes import Call

_MICROS = 1_000_000
_DAY = 86_400
_BLANK = r"[\x00-\x20\x7f]*"
_DATE = (
    rf"(?s)^{_BLANK}(?P<sign>[+-]?)(?P<year>[0-9]{{4,7}})"
    rf"(?:-(?P<month>[0-9]{{1,2}})(?:-(?P<day>[0-9]{{1,2}})(?:[ T].*)?)?)?{_BLANK}$"
)
_LAST_YEAR, _LAST_HOURS = 999_999_999, 18 * 3600


def _date(call: Call, values: list[pa.Array]) -> pa.Array:
    """A year, or more of a date; what follows behind a whole date does not count."""
    column = values[0]
    parts = pc.extract_regex(column, _DATE)
    year = _signed(parts, _part(parts, "year"))
    month, day = _part(parts, "month", 1), _part(parts, "day", 1)
    days = days_of(year, month, day)
    is_wrong = ~exists(year, month, day) | (days != days.astype(np.int32)) | _missing(parts)
    return pa.array(np.where(is_wrong, 0, days).astype(np.int32), pa.int32(), mask=is_wrong).cast(call.kind)


def _time(call: Call, values: list[pa.Array]) -> pa.Array:
    """`options`: the pattern, as a regular expression whose groups have the names of the parts of a time."""
    seconds, fraction, is_time = _parsed(values[0], call.options[0])
    is_wrong = ~is_time | _is_far(seconds, fraction)
    found = np.where(is_wrong, 0, seconds) * _MICROS + fraction
    return pa.array(found, pa.int64(), mask=is_wrong).cast(call.kind)


def _far_time(call: Call, values: list[pa.Array]) -> pa.Array:
    """Where a text has a time that 64 bits do not have: there Spark fails. The text stands behind the time itself."""
    seconds, fraction, is_time = _parsed(values[1], call.options[0])
    return pa.array(is_time & _is_far(seconds, fraction))


def _parsed(column: pa.StringArray, regex: str) -> tuple[Whole, Whole, Bits]:
    """Seconds, microseconds, and whether there is a time at all."""
    parts = pc.extract_regex(column, regex)
    digits = _part(parts, "year")
    year = _signed(parts, digits)
    month, day = _part(parts, "month", 1), _part(parts, "day", 1)
    hour, minute, second = (_part(parts, name) for name in ("hour", "minute", "second"))
    is_wrong = _missing(parts) | ~exists(year, month, day) | (hour > 23) | (minute > 59) | (second > 59)
    length = pc.coalesce(pc.binary_length(_text(parts, "year")), 0).to_numpy(zero_copy_only=False)
    # A year of four digits has no plus, a longer one has a sign.
    is_wrong |= np.where(length > 4, _equals(parts, "sign", ""), _equals(parts, "sign", "+"))
    is_wrong |= (digits > _LAST_YEAR) | ((digits == 0) & _equals(parts, "sign", "-"))
    offset = 3600 * _part(parts, "offset_hour") + 60 * _part(parts, "offset_minute")
    is_wrong |= (offset > _LAST_HOURS) | (_part(parts, "offset_minute") > 59)
    offset = np.where(_equals(parts, "offset_sign", "-"), -offset, offset)
    seconds = days_of(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
    return seconds, _fraction(parts), ~is_wrong


def _is_far(seconds: Whole, fraction: Whole) -> Bits:
    most, least = divmod(np.iinfo(np.int64).max, _MICROS), divmod(np.iinfo(np.int64).min, _MICROS)
    is_late = (seconds > most[0]) | ((seconds == most[0]) & (fraction > most[1]))
    return np.asarray(is_late | (seconds < least[0]) | ((seconds == least[0]) & (fraction < least[1])), np.bool_)


def _names(parts: pa.StructArray) -> set[str]:
    return {parts.type.field(index).name for index in range(parts.type.num_fields)}


def _missing(parts: pa.StructArray) -> Bits:
    return np.asarray(parts.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _text(parts: pa.StructArray, name: str) -> Any:
    return pc.struct_field(parts, name) if name in _names(parts) else pa.nulls(len(parts), pa.string())


def _part(parts: pa.StructArray, name: str, otherwise: int = 0) -> Whole:
    """The number; `otherwise` for one that is not there. More than ten digits are as good as ten."""
    digits = pc.utf8_ltrim(_text(parts, name), "0")
    was_there = pc.greater(pc.binary_length(_text(parts, name)), 0)
    digits = pc.if_else(pc.greater(pc.binary_length(digits), 10), "9999999999", digits)
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    found = pc.if_else(pc.coalesce(was_there, pa.scalar(False)), digits, str(otherwise))
    whole: Whole = found.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return whole


def _fraction(parts: pa.StructArray) -> Whole:
    """Microseconds: further digits are cut."""
    digits = pc.utf8_slice_codeunits(pc.coalesce(_text(parts, "fraction"), pa.scalar("")), start=0, stop=6)
    whole: Whole = pc.utf8_rpad(digits, 6, "0").cast(pa.int64()).to_numpy(zero_copy_only=False)
    return whole


def _equals(parts: pa.StructArray, name: str, text: str) -> Bits:
    same = pc.coalesce(pc.equal(_text(parts, name), text), pa.scalar(False))
    return np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)


def _signed(parts: pa.StructArray, year: Whole) -> Whole:
    return np.where(_equals(parts, "sign", "-"), -year, year)


CALENDAR: Mapping[str, Kernel] = {
    "date_of_text": on_columns(_date),
    "time_of_text": on_columns(_time),
    "far_time_of_text": on_columns(_far_time),
}

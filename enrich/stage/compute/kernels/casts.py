"""Casts. A value that does not fit is null, cut or wrapped around, as Spark does without ANSI mode."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.values import Kernel, Value, nulls, numbers, on_columns
from enrich.stage.compute.nodes import Call

_INT = np.iinfo(np.int32)
_BLANK = r"[\x00-\x20\x7f]*"
_WHOLE = rf"^{_BLANK}(?P<sign>[+-]?)0*(?:(?P<digits>[0-9]+)(?:\.[0-9]*)?|\.[0-9]*){_BLANK}$"
_TRUE = [b"t", b"true", b"y", b"yes", b"1"]
_FALSE = [b"f", b"false", b"n", b"no", b"0"]
_MOST_DIGITS = 18
"""So many digits fit into 64 bits, whatever they are."""


def _converted(call: Call, values: list[pa.Array]) -> pa.Array:
    """By the rules of the processor: wrapped around, or rounded to the nearest."""
    with np.errstate(all="ignore"):
        found = numbers(values[0]).astype(call.kind.to_pandas_dtype())
    return pa.array(found, call.kind, mask=nulls(values[0]))


def _cut(call: Call, values: list[pa.Array]) -> pa.Array:
    """As Java does: the nearest number of the type, NaN is 0. A smaller type than int gets the last bits of an int."""
    kind = np.iinfo(np.int64) if pa.types.is_int64(call.kind) else _INT
    with np.errstate(all="ignore"):  # some NaN are errors to the processor
        whole = np.nan_to_num(np.trunc(numbers(values[0]).astype(np.float64)), nan=0.0)
    is_low, is_high = whole <= kind.min, whole >= float(kind.max)
    found = np.where(is_low | is_high, 0.0, whole).astype(np.int64)
    found = np.where(is_low, kind.min, np.where(is_high, kind.max, found))
    return pa.array(found.astype(call.kind.to_pandas_dtype()), call.kind, mask=nulls(values[0]))


def _printed(call: Call, values: Sequence[Value]) -> Value:
    return values[0].cast(call.kind)


def _from_boolean(call: Call, values: Sequence[Value]) -> Value:
    return values[0].cast(pa.int8()).cast(call.kind)


def _to_boolean(_: Call, values: Sequence[Value]) -> Value:
    return pc.not_equal(values[0], pa.scalar(0, values[0].type))


def _whole_number(call: Call, values: list[pa.Array]) -> pa.Array:
    """Blanks around are left out, and so is all behind a point, if these are digits."""
    column = values[0]
    plain = pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")
    found = column.cast(pa.int64()) if pc.all(plain).as_py() is not False else _odd_numbers(column)
    if pa.types.is_int64(call.kind):
        return found
    limits = np.iinfo(call.kind.to_pandas_dtype())
    fits = pc.and_(pc.greater_equal(found, int(limits.min)), pc.less_equal(found, int(limits.max)))
    return pc.if_else(fits, found, pa.scalar(None, pa.int64())).cast(call.kind)


def _odd_numbers(column: pa.StringArray) -> pa.Int64Array:
    parts = pc.extract_regex(column, _WHOLE)
    sign, digits = pc.struct_field(parts, "sign"), pc.struct_field(parts, "digits")
    # A sign or nothing at all is no number, but a point alone is 0.
    is_nothing = pc.match_substring_regex(column, rf"^{_BLANK}[+-]?{_BLANK}$")
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    digits = pc.if_else(pc.or_(is_nothing, pc.greater(pc.binary_length(digits), _MOST_DIGITS + 1)), None, digits)
    # Nineteen digits are more than some 64 bits have: read as decimals, they are compared.
    wide = pc.binary_join_element_wise(pc.replace_substring(sign, "+", ""), digits, "").cast(pa.decimal128(19, 0))
    limits = np.iinfo(np.int64)
    fits = pc.and_(
        pc.greater_equal(wide, pa.scalar(int(limits.min)).cast(pa.decimal128(19, 0))),
        pc.less_equal(wide, pa.scalar(int(limits.max)).cast(pa.decimal128(19, 0))),
    )
    return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(pa.int64())


def _read_boolean(_: Call, values: list[pa.Array]) -> pa.Array:
    trimmed = pc.ascii_lower(pc.replace_substring_regex(values[0], rf"^{_BLANK}|{_BLANK}$", ""))
    is_true = pc.is_in(trimmed, pa.array(_TRUE, pa.string()))
    is_false = pc.is_in(trimmed, pa.array(_FALSE, pa.string()))
    return pc.if_else(pc.or_(is_true, is_false), is_true, pa.scalar(None, pa.bool_()))


CASTS: Mapping[str, Kernel] = {
    "wrapped": on_columns(_converted),
    "converted": on_columns(_converted),
    "cut": on_columns(_cut),
    "printed": _printed,
    "from_boolean": _from_boolean,
    "to_boolean": _to_boolean,
    "whole_number": on_columns(_whole_number),
    "read_boolean": on_columns(_read_boolean),
}

"""Which values an Avro type has. fastavro looks at types in unions only: elsewhere it writes 1.5 as the whole number 1,
the text `false` as true, a text as the array of its letters, and 1e300 as infinity."""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

_BITS = {"int": 31, "long": 63}
# Numbers from here on round to infinity, in 32 bits.
_LARGEST_FLOAT = (2 - 2.0**-24) * 2.0**127


def is_sure(written: Any, kind: pa.DataType) -> bool:
    """Whether all values of a column need no look, each by each."""
    branches = written if isinstance(written, list) else [written]
    return any(_takes_all(each["type"] if isinstance(each, dict) else each, kind) for each in branches)


def _takes_all(form: Any, kind: pa.DataType) -> bool:
    if form in ("int", "long"):
        is_narrow = pa.types.is_signed_integer(kind) and kind.bit_width <= _BITS[form] + 1
        return bool(is_narrow or pa.types.is_temporal(kind))
    if form == "boolean":
        return bool(pa.types.is_boolean(kind))
    if form == "float":
        return bool(pa.types.is_float32(kind))
    return form in ("double", "string", "bytes", "enum", "fixed") and not pa.types.is_nested(kind)


def fits(written: Any, value: Any, names: Mapping[str, Any]) -> bool:
    """Whether fastavro writes this value, or refuses it, and does not write another one. `names`: the named types."""
    if isinstance(written, list):
        return any(fits(branch, value, names) for branch in written)
    if isinstance(written, str):
        written = names.get(written, {"type": written})
    form = written["type"]
    if isinstance(form, dict | list):
        return fits(form, value, names)
    match form:
        case "null":
            return value is None
        case "boolean":
            return value is None or value in (0, 1)
        case "int" | "long":
            return not isinstance(value, int | float | Decimal) or _is_whole(value, _BITS[form])
        case "float":
            return not isinstance(value, float) or math.isinf(value) or not abs(value) >= _LARGEST_FLOAT
        case "array":
            is_list = isinstance(value, list)
            return value is None or (is_list and all(fits(written["items"], item, names) for item in value))
        case "map" if isinstance(value, dict):
            return all(fits(written["values"], item, names) for item in value.values())
        case "record" | "error" if isinstance(value, dict):
            return all(fits(field["type"], value.get(field["name"]), names) for field in written["fields"])
    return True


def _is_whole(value: float | Decimal, bits: int) -> bool:
    return math.isfinite(value) and int(value) == value and -(1 << bits) <= value < 1 << bits

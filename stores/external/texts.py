"""Arrow columns as text, the form in which Redis and PostgreSQL take values: whole columns at once, without Python
objects for rows, except for nested types."""

import base64
import json
import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stores.errors import BadRecord
from stores.json_text import quoted


def texts_of(column: pa.Array) -> pa.Array:
    """Text, or bytes for binary columns: numbers in decimals, times in ISO 8601 and UTC, nested values as JSON."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_nested(kind):
        return pa.array(_json_of_each(column), pa.string())
    return column.cast(pa.string())


def json_texts_of(column: pa.Array) -> pa.StringArray:
    """Each value as JSON; a null is `null`."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))  # JSON has no NaN
        texts = finite.cast(pa.string())
    elif pa.types.is_string(kind):
        texts = quoted(column)
    elif pa.types.is_nested(kind) or pa.types.is_binary(kind):
        texts = pa.array(_json_of_each(column), pa.string())
    else:  # dates, times, decimals: text that needs no escaping
        texts = pc.binary_join_element_wise('"', texts_of(column), '"', "")
    return pc.fill_null(texts, "null")


def json_objects_of(rows: pa.StructArray) -> pa.StringArray:
    """Each row as a JSON object without its braces: `"plan": "pro", "rps": 5`. A null row is null."""
    pieces: list[Any] = []
    for index, field in enumerate(rows.type):
        before = ", " if index else ""
        pieces += [
            f"{before}{json.dumps(field.name, ensure_ascii=False)}: ",
            json_texts_of(pc.struct_field(rows, index)),
        ]
    joined = pc.binary_join_element_wise(*pieces, "")
    return pc.if_else(rows.is_valid(), joined, pa.scalar(None, pa.string()))


def _json_of_each(column: pa.Array) -> list[str | None]:
    """Each value as JSON: bytes as base64, decimals as text, times in ISO 8601, a map as an object. Raises BadRecord
    for a time that has no such text."""
    try:
        rows = column.to_pylist()
    except (OverflowError, ValueError):  # Python's times end there
        raise BadRecord("a time inside of a value is not between the years 1 and 9999") from None
    plain = (None if row is None else _plain(row, column.type) for row in rows)
    return [None if row is None else json.dumps(row, ensure_ascii=False, default=str) for row in plain]


def _plain(value: Any, kind: pa.DataType) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float():
            return value if math.isfinite(value) else None  # JSON has no NaN
        case dict():
            return {field.name: _plain(value[field.name], field.type) for field in kind}
        case list() if pa.types.is_map(kind):  # as pairs
            return {str(key): _plain(inner, kind.item_type) for key, inner in value}
        case list():
            return [_plain(inner, kind.value_type) for inner in value]
    return value


def _timestamps(column: pa.Array) -> pa.StringArray:
    local = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(local, " ", "T"), "Z", "")

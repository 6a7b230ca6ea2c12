"""Arrow columns as text, the form in which Redis and PostgreSQL take values: whole columns at once, without Python
objects for rows, except for nested types."""

import base64
import json
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stores.json_text import quoted


def texts_of(column: pa.Array) -> pa.Array:
    """Text, or bytes for binary columns: numbers in decimals, times in ISO 8601 and UTC, nested values as JSON."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_nested(kind):
        return pa.array([None if row is None else json_text(row) for row in column.to_pylist()], pa.string())
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
        texts = pa.array([json_text(row) for row in column.to_pylist()], pa.string())
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


def json_text(value: Any) -> str:
    """One value as JSON: bytes as base64, decimals as text, times in ISO 8601, a map as an object."""
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case [(_, _), *_] if all(isinstance(inner, tuple) for inner in value):  # Arrow returns a map as a list of pairs
            return {str(key): _plain(inner) for key, inner in value}
        case list():
            return [_plain(inner) for inner in value]
    return value


def _timestamps(column: pa.Array) -> pa.StringArray:
    local = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(local, " ", "T"), "Z", "")

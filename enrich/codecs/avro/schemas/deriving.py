"""The Avro schema of a column type, for topics that have none yet."""

import json
import re
from typing import Any

import pyarrow as pa

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALARS = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_integer, "int"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_date32, {"type": "int", "logicalType": "date"}),
)


class NoSchema(Exception):
    """Avro has no form for a type. Its text says where and why."""


def derived(kind: pa.StructType, name: str) -> str:
    """A record of this name, whose fields may all be null. Raises NoSchema."""
    return json.dumps(_record(kind, _as_name(name), "the value"))


def _record(kind: pa.StructType, name: str, what: str) -> dict[str, Any]:
    fields = []
    for index in range(kind.num_fields):
        each = kind.field(index)
        if not _NAME.fullmatch(each.name):
            raise NoSchema(f"{each.name!r} in {what} is no name in Avro: letters, digits and _, and no digit first")
        inner = _schema(each.type, f"{name}_{each.name}", each.name)
        # Null comes first: it is the default, so that a field can be added or left out later.
        fields.append({"name": each.name, "type": ["null", inner], "default": None})
    if len({each["name"] for each in fields}) < len(fields):
        raise NoSchema(f"two fields of {what} have one name")
    return {"type": "record", "name": name, "fields": fields}


def _schema(kind: pa.DataType, name: str, what: str) -> Any:
    if pa.types.is_struct(kind):
        return _record(kind, name, what)
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _schema(kind.value_type, name, f"an element of {what}")]}
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _schema(kind.item_type, name, f"a value of {what}")]}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if pa.types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    for matches, schema in _SCALARS:
        if matches(kind):
            return schema
    raise NoSchema(f"{what} is of type {kind}, which Avro has no form for")


def _as_name(text: str) -> str:
    """Of a topic."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return name if _NAME.fullmatch(name) else f"_{name}"

"""Derives columns from an Avro schema, for readers that declare none of their own."""

import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.codecs.avro.schemas.types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Union,
    describe,
    load_schema,
)

_TIME = pa.timestamp("us", tz="UTC")
_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): _TIME,
    ("long", "timestamp-micros"): _TIME,
}
_MOST_DIGITS = 38


def columns_of(schema: str) -> pa.Schema:
    """A nullable column for each field of the record. Raises ConfigError for a type that no column can hold, such as a
    union of several types."""
    return pa.schema(_fields(load_schema(schema)))


def _fields(record: Record) -> list[pa.Field]:
    return [pa.field(field.name, _column(field.type, field.name)) for field in record.fields]


def _column(kind: AvroType, name: str) -> pa.DataType:
    match kind:
        case Union(branches):
            others = [branch for branch in branches if branch != Primitive("null")]
            if len(others) == 1:
                return _column(others[0], name)
        case Primitive("bytes", Logical("decimal", precision, scale)) if precision <= _MOST_DIGITS:
            return pa.decimal128(precision, scale)
        case Fixed(_, _, Logical("decimal", precision, scale)) if precision <= _MOST_DIGITS:
            return pa.decimal128(precision, scale)
        case Primitive(plain, logical) if plain in _PLAIN:
            return _LOGICAL.get((plain, "" if logical is None else logical.name), _PLAIN[plain])
        case Fixed():
            return pa.binary()
        case Enum():
            return pa.string()
        case Array(items):
            return pa.list_(_column(items, f"{name}[]"))
        case Map(values):
            return pa.map_(pa.string(), _column(values, f"{name}{{}}"))
        case Record():
            return pa.struct(_fields(kind))
    raise ConfigError(f"the field {name} of the avro schema, a {describe(kind)}, fits no column")

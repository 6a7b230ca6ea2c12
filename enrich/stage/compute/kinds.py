"""Types of Spark as Arrow types, and groups of them."""

import re
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, _parse_datatype_json_string

TEXT = pa.string()
BOOLEAN = pa.bool_()
TIME = pa.timestamp("us", "UTC")
DATE = pa.date32()
LONG, DOUBLE = pa.int64(), pa.float64()

_SIMPLE = {
    "void": pa.null(),
    "string": TEXT,
    "binary": pa.binary(),
    "boolean": BOOLEAN,
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": LONG,
    "float": pa.float32(),
    "double": DOUBLE,
    "date": DATE,
    "timestamp": TIME,
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

Group = Callable[[pa.DataType], bool]


def simple_kind(name: str) -> pa.DataType | None:
    """The type that Spark calls so. None for those that no function takes: objects, lists, text with a collation."""
    decimal = _DECIMAL.fullmatch(name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _SIMPLE.get(name)


def kind_of(spark_type: DataType) -> pa.DataType:
    """Any type of a schema. What is NOT NULL for Spark may be null: events break promises, and expressions fail."""
    return simple_kind(spark_type.simpleString()) or all_nullable(to_arrow_type(spark_type, timezone="UTC"))


def all_nullable(kind: pa.DataType) -> pa.DataType:
    """The type without NOT NULL inside of it."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, all_nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, all_nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, all_nullable(kind.item_type))
    return kind


def kind_named(json: str) -> pa.DataType:
    """Any type that the JVM describes."""
    return kind_of(_parse_datatype_json_string(json))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def one_of(*kinds: pa.DataType) -> Group:
    return lambda kind: kind in kinds


def is_any(_: pa.DataType) -> bool:
    return True


def is_simple(kind: pa.DataType) -> bool:
    """Values of which one can be chosen."""
    return kind in _SIMPLE.values() or pa.types.is_decimal(kind)


def is_comparable(kind: pa.DataType) -> bool:
    return is_simple(kind) and not pa.types.is_null(kind)

"""The types of columns as value objects: written as Spark's DDL, turned into Arrow's types when one needs these.

They exist beside Arrow's own types because importing pyarrow takes longer than all else that `config check` does.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PRECISION = 38

SIMPLE_TYPES = (
    "string",
    "binary",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp",
)


@dataclass(frozen=True)
class Simple:
    """One of SIMPLE_TYPES."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Decimal:
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class Array:
    element: "ColumnType"

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True)
class Map:
    key: "ColumnType"
    value: "ColumnType"

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True)
class Struct:
    fields: tuple["Column", ...]

    def __str__(self) -> str:
        return f"struct<{','.join(field.text(':') for field in self.fields)}>"


ColumnType = Simple | Decimal | Array | Map | Struct


@dataclass(frozen=True)
class Column:
    name: str
    type: ColumnType
    nullable: bool = True

    def text(self, separator: str = " ") -> str:
        # `not` alone would read as the start of NOT NULL; everything that is no plain word is quoted.
        plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name) and self.name.lower() != "not"
        name = self.name if plain else "`" + self.name.replace("`", "``") + "`"
        return f"{name}{separator}{self.type}{'' if self.nullable else ' NOT NULL'}"

    def __str__(self) -> str:
        return self.text()


def to_arrow(column_type: ColumnType) -> "pa.DataType":
    import pyarrow as pa

    match column_type:
        case Simple(name):
            return _arrow_types()[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element):
            return pa.list_(to_arrow(element))
        case Map(key, value):
            return pa.map_(to_arrow(key), to_arrow(value))
        case Struct(fields):
            return pa.struct([to_arrow_field(field) for field in fields])


def to_arrow_field(column: Column) -> "pa.Field":
    import pyarrow as pa

    return pa.field(column.name, to_arrow(column.type), nullable=column.nullable)


def from_arrow(arrow_type: "pa.DataType") -> ColumnType:
    """The inverse of `to_arrow`. Raises ValueError for a type that no column list can name."""
    import pyarrow as pa

    for name, simple in _arrow_types().items():
        if arrow_type == simple:
            return Simple(name)
    if pa.types.is_decimal128(arrow_type):
        return Decimal(arrow_type.precision, arrow_type.scale)
    if pa.types.is_list(arrow_type):
        return Array(from_arrow(arrow_type.value_type))
    if pa.types.is_map(arrow_type):
        return Map(from_arrow(arrow_type.key_type), from_arrow(arrow_type.item_type))
    if pa.types.is_struct(arrow_type):
        return Struct(tuple(from_arrow_field(arrow_type.field(i)) for i in range(arrow_type.num_fields)))
    raise ValueError(f"no column type is Arrow's {arrow_type}")


def from_arrow_field(field: "pa.Field") -> Column:
    return Column(field.name, from_arrow(field.type), field.nullable)


def _arrow_types() -> dict[str, "pa.DataType"]:
    import pyarrow as pa

    return {
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        # Spark's timestamp is an instant, in microseconds; Arrow says so with a time zone.
        "timestamp": pa.timestamp("us", tz="UTC"),
    }

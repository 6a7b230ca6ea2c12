"""Maps PostgreSQL's types to Arrow's: how a column is selected, and how COPY's text becomes an array.

Types that Arrow does not have become text, as PostgreSQL writes it. Values that are JSON (json, arrays, composite
types, unbounded numerics) are text too, marked in their field: see json_text.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as arrow_csv

from stores.errors import BadRecord
from stores.json_text import JSON_TEXT

# The fixed oids of PostgreSQL's built-in types.
_BOOLEAN, _BYTES, _DATE, _TIMESTAMP, _TIMESTAMP_WITH_ZONE, _NUMERIC = 16, 17, 1082, 1114, 1184, 1700
_SIMPLE: dict[int, pa.DataType] = {
    _BOOLEAN: pa.bool_(),
    21: pa.int16(),
    23: pa.int32(),
    20: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
}
_JSON_TYPES = (114, 3802)
_LARGEST_BUILT_IN = 9999
_TIMES = {
    _DATE: pa.date32(),
    _TIMESTAMP: pa.timestamp("us"),
    _TIMESTAMP_WITH_ZONE: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or view."""

    name: str
    type_id: int
    type_modifier: int
    category: str
    """PostgreSQL's typcategory: A for arrays, C for composite types."""

    @property
    def is_time(self) -> bool:
        return self.type_id in _TIMES

    @property
    def is_day(self) -> bool:
        return self.type_id == _DATE

    @property
    def field(self) -> pa.Field:
        kind = _SIMPLE.get(self.type_id) or _TIMES.get(self.type_id)
        if kind is not None:
            return pa.field(self.name, kind)
        if self.type_id == _BYTES:
            return pa.field(self.name, pa.binary())
        precision, scale = self._digits
        if self.type_id == _NUMERIC and 0 < precision <= 38 and 0 <= scale <= precision:
            return pa.field(self.name, pa.decimal128(precision, scale))
        if self.type_id in (_NUMERIC, *_JSON_TYPES) or self.category in "AC":
            return pa.field(self.name, pa.string(), metadata=JSON_TEXT)
        return pa.field(self.name, pa.string())

    @property
    def expression(self) -> str:
        """The expression to select, so that Arrow can hold every value. A value that it cannot hold becomes null."""
        name = quoted(self.name)
        if self.category in "AC":
            return f"to_json({name})::text"
        if self.type_id == _NUMERIC:
            return f"CASE WHEN {name} NOT IN ('NaN', 'Infinity', '-Infinity') THEN {name} END"
        if self.type_id == _DATE:
            return f"CASE WHEN {name} BETWEEN '0001-01-01' AND '9999-12-31' THEN {name} END"
        if self.is_time:  # infinity, years before 1 and after 9999
            return f"CASE WHEN {name} >= '0001-01-01' AND {name} < '10000-01-01' THEN {name} END"
        return f"{name}::text" if self.type_id > _LARGEST_BUILT_IN else name

    @property
    def _digits(self) -> tuple[int, int]:
        if self.type_id != _NUMERIC or self.type_modifier < 0:
            return 0, 0
        packed = self.type_modifier - 4
        return packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def parsed(text: bytes, columns: Sequence[Column], where: str) -> pa.RecordBatch:
    """Whole lines of COPY's CSV as a batch. Raises BadRecord for a value that Arrow cannot hold."""
    schema = pa.schema([column.field for column in columns])
    names = [str(number) for number in range(len(columns))]  # a table cannot have two columns of a name, a CSV can
    # PostgreSQL writes true as t, and bytes in hexadecimal digits.
    types = {n: pa.string() if pa.types.is_binary(f.type) else f.type for n, f in zip(names, schema, strict=True)}
    convert = arrow_csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        true_values=["t"],
        false_values=["f"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,  # COPY quotes an empty text to distinguish it from null
    )
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text),
            arrow_csv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
            arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert,
        ).combine_chunks()
    except pa.ArrowException:  # its message quotes the value
        raise BadRecord(
            "PostgreSQL sent a value that its column's type does not have here",
            where=where,
            next_step="report this, with the types of the table's columns",
        ) from None
    arrays = [
        _bytes(column) if pa.types.is_binary(field.type) else column.combine_chunks()
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bytes(texts: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()], pa.binary())

"""Writes columns as Avro records, in columns: the bytes of all values of a field at once, and no Python object a row.

The other direction of `decoder`. A stage's records go through it; the rows of sources go through `encoding`, which
takes what a database gives for any schema.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.avro.encoding.leaf_bytes import (
    NOTHING,
    NULL,
    booleans,
    decimals,
    fixed_decimals,
    floats,
    narrow,
    numbers,
    of_length,
    with_length,
)
from enrich.codecs.avro.schemas.parsing import of_defaults, parsed_to_write
from enrich.codecs.joining import joined, null_where

Write = Callable[[pa.Array], pa.BinaryArray]
"""The bytes of each value; null for one that the schema has no place for."""
_HEADER = b"\0"
_END = pa.scalar(b"\0", pa.binary())
"""Of the blocks of a list or map."""


class NoWay(Exception):
    """A column cannot be written as the schema has it. Its text says which and why."""


@dataclass(frozen=True)
class AvroWriter:
    """Of objects of one type and one schema of a registry. It can be sent to workers."""

    schema: str
    schema_id: int
    kind: pa.StructType

    def check(self) -> None:
        """Raises NoWay."""
        _ = self._write

    def write(self, rows: pa.StructArray) -> pa.BinaryArray:
        """The body of each row behind its schema's id. Null for one that is null or does not fit the schema."""
        header = pa.scalar(_HEADER + self.schema_id.to_bytes(4, "big"), pa.binary())
        return joined(header, self._write(rows.cast(self.kind)))

    @cached_property
    def _write(self) -> Write:
        parsed, names = parsed_to_write(json.loads(self.schema))
        return _Schema(names).write(parsed, self.kind, "the value")

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "schema_id": self.schema_id, "kind": self.kind}


@dataclass(frozen=True)
class _Schema:
    names: Mapping[str, Any]
    """The named types, by their full names."""

    def write(self, schema: Any, kind: pa.DataType, what: str) -> Write:
        """How to write values of this type. `what` they are, for messages."""
        if isinstance(schema, list):
            return self._union(schema, kind, what)
        if isinstance(schema, str):
            schema = self.names.get(schema, {"type": schema})
        form = schema["type"]
        if isinstance(form, dict | list):
            return self.write(form, kind, what)
        if form in ("record", "error"):
            return self._record(schema, kind, what)
        if form == "array" and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            return _list(self.write(schema["items"], kind.value_type, f"an element of {what}"))
        if form == "map" and pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            return _map(self.write(schema["values"], kind.item_type, f"a value of {what}"))
        found = _leaf(schema, kind)
        if found is None:
            logical = schema.get("logicalType")
            raise NoWay(f"{what} is of type {kind}, and the schema has {form}{f' ({logical})' if logical else ''}")
        return found

    def _record(self, schema: Any, kind: pa.DataType, what: str) -> Write:
        if not pa.types.is_struct(kind):
            raise NoWay(f"{what} is of type {kind}, and the schema has record {schema['name']}")
        own = {kind.field(index).name: index for index in range(kind.num_fields)}
        fields = {each["name"]: each for each in schema["fields"]}
        for name in own:
            if name not in fields:
                raise NoWay(f"{what} has {name}, and the schema has only {', '.join(fields)}")
        parts: list[pa.Scalar | tuple[int, Write]] = []
        for name, each in fields.items():
            if name in own:
                index = own[name]
                parts.append((index, self.write(each["type"], kind.field(index).type, name)))
            elif "default" in each:
                parts.append(pa.scalar(self._default(each), pa.binary()))
            else:
                raise NoWay(f"{what} has no {name}, and the schema has no default for it")

        has_columns = any(not isinstance(part, pa.Scalar) for part in parts)

        def write(rows: pa.StructArray) -> pa.BinaryArray:
            # `field`, not `flatten`: what is in a null struct is not looked at.
            each = [part if isinstance(part, pa.Scalar) else part[1](rows.field(part[0])) for part in parts]
            if not has_columns:
                each.append(pa.repeat(NOTHING, len(rows)))
            return null_where(rows, joined(*each))

        return write

    def _default(self, declared: Any) -> bytes:
        """Of a field: fastavro writes it where the record has none."""
        from fastavro import schemaless_writer

        body = io.BytesIO()
        schemaless_writer(body, of_defaults(declared, self.names), {})
        return body.getvalue()

    def _union(self, branches: Sequence[Any], kind: pa.DataType, what: str) -> Write:
        """The first branch that can take the type, and null."""
        null = next((index for index, each in enumerate(branches) if each == "null"), None)
        if pa.types.is_null(kind) and null is not None:
            return lambda values: pa.repeat(pa.scalar(_branch(null), pa.binary()), len(values))
        problems = []
        for index, each in enumerate(branches):
            if index == null:
                continue
            try:
                inner = self.write(each, kind, what)
            except NoWay as problem:
                problems.append(str(problem))
                continue
            return _of_branch(index, null, inner)
        raise NoWay("; ".join(problems) or f"{what} is of type {kind}, and the schema has only null")


def _of_branch(index: int, null: int | None, inner: Write) -> Write:
    own = pa.scalar(_branch(index), pa.binary())

    def write(values: pa.Array) -> pa.BinaryArray:
        made = joined(own, inner(values))
        if null is None or not values.null_count:
            return made
        return pc.if_else(values.is_valid(), made, pa.scalar(_branch(null), pa.binary()))

    return write


def _branch(index: int) -> bytes:
    return bytes(numbers(pa.array([index]))[0].as_py())


def _list(items: Write) -> Write:
    def write(values: pa.ListArray) -> pa.BinaryArray:
        offsets = values.offsets.to_numpy()
        return _blocks(values, offsets, items(values.values))

    return write


def _map(items: Write) -> Write:
    def write(values: pa.MapArray) -> pa.BinaryArray:
        offsets = values.offsets.to_numpy()
        return _blocks(values, offsets, joined(with_length(values.keys), items(values.items)))

    return write


def _blocks(values: pa.Array, offsets: npt.NDArray[np.int32], entries: pa.BinaryArray) -> pa.BinaryArray:
    """One block for the entries of each value, and the end. Null where the value or one of its entries is."""
    starts, ends = offsets[:-1], offsets[1:]
    bad = np.concatenate([[0], np.cumsum(entries.is_null().to_numpy(zero_copy_only=False))])
    entries = pc.fill_null(entries, b"")
    # The entries of a value lie side by side: together they are one piece of the same bytes.
    edges = np.frombuffer(entries.buffers()[1], np.int32)[entries.offset : entries.offset + len(entries) + 1]
    if not len(edges):
        edges = np.zeros(1, np.int32)
    pieces_at = np.append(edges[starts], edges[ends[-1:]] if len(ends) else 0).astype(np.int32)
    content = entries.buffers()[2] or pa.py_buffer(b"")
    pieces = pa.BinaryArray.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(pieces_at), content])
    counts = (ends - starts).astype(np.int64)
    headers = pc.if_else(pa.array(counts > 0), numbers(pa.array(counts)), NOTHING)
    usable = pa.array(bad[starts] == bad[ends])
    return null_where(values, pc.if_else(usable, joined(headers, pieces, _END), NULL))


def _leaf(schema: Any, kind: pa.DataType) -> Write | None:
    """None if the two do not fit."""
    form, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and form in ("bytes", "fixed"):
        return _decimal(schema, kind)
    if form in ("int", "long"):
        return _number(form, logical, kind)
    if form == "fixed":
        return of_length(schema["size"]) if pa.types.is_binary(kind) and logical is None else None
    if form == "enum":
        return _enum(schema["symbols"]) if pa.types.is_string(kind) else None
    found = {
        "null": (pa.types.is_null, lambda values: pa.repeat(NOTHING, len(values))),
        "boolean": (pa.types.is_boolean, booleans),
        "float": (pa.types.is_float32, floats),
        "double": (pa.types.is_floating, lambda values: floats(values.cast(pa.float64()))),
        "bytes": (pa.types.is_binary, with_length),
        "string": (pa.types.is_string, with_length),
    }.get(form)
    return found[1] if found is not None and found[0](kind) else None


def _number(form: str, logical: str | None, kind: pa.DataType) -> Write | None:
    if pa.types.is_integer(kind) and logical is None:
        return narrow if form == "int" else numbers
    if pa.types.is_date32(kind):
        return (lambda values: numbers(values.cast(pa.int32()))) if logical == "date" else None
    if not pa.types.is_timestamp(kind):
        return None
    name = (logical or "").removeprefix("local-")
    is_local = name != logical
    units = {"timestamp-millis": "ms", "timestamp-micros": "us"}
    if form != "long" or name not in units or is_local is not (kind.tz is None):
        return None
    unit = units[name]
    return lambda values: numbers(pc.floor_temporal(values, unit=_UNITS[unit]).cast(pa.timestamp(unit, kind.tz)))


_UNITS = {"ms": "millisecond", "us": "microsecond"}


def _decimal(schema: Any, kind: pa.DataType) -> Write | None:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if not pa.types.is_decimal128(kind) or precision > 38:
        return None
    if kind.scale > scale or kind.precision - kind.scale > precision - scale:
        return None
    own = pa.decimal128(precision, scale)
    if schema["type"] == "bytes":
        return lambda values: decimals(values.cast(own))
    return lambda values: fixed_decimals(values.cast(own), schema["size"])


def _enum(symbols: Sequence[str]) -> Write:
    known = pa.array(symbols, pa.string())
    return lambda values: numbers(pc.index_in(values, known, skip_nulls=True))

"""Nodes that contain other nodes: records, unions, arrays and maps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.avro.cursor import Cursor
from enrich.codecs.avro.node import Node
from enrich.codecs.avro.record import RecordBytes
from enrich.codecs.rows import Indexes, assemble
from enrich.codecs.unfit import Unfit, inside, map_entry

# Fewer records than this are not worth a pass of array operations: they are read one by one, as doubtful ones are.
_FEWEST = 16
_ROUNDS_FOR_FEW = 16


@dataclass(frozen=True)
class RecordField:
    name: str
    node: Node
    column: int | None
    """Index of the field of the column that it fills; None: skipped."""


@dataclass(frozen=True)
class RecordNode:
    fields: tuple[RecordField, ...]
    """In the writer's order."""
    constants: tuple[tuple[int, pa.Scalar], ...]
    """Fields of the column that the writer does not have, with their defaults or null."""
    kind: pa.StructType | None

    def many(self, cursor: Cursor) -> pa.Array:
        if self.kind is None:
            for field in self.fields:
                field.node.many(cursor)
            return None
        columns: list[pa.Array] = [None] * self.kind.num_fields
        for field in self.fields:
            values = field.node.many(cursor)
            if field.column is not None:
                _refuse_null(values, self.kind.field(field.column), cursor)
                columns[field.column] = values
        for index, value in self.constants:
            columns[index] = pa.array([value.as_py()], value.type).take(pa.array(np.zeros(len(cursor), np.int64)))
            _refuse_null(columns[index], self.kind.field(index), cursor)
        if not columns:  # Arrow would not know how many rows there are
            return pa.StructArray.from_buffers(self.kind, len(cursor), [None])
        return pa.StructArray.from_arrays(columns, fields=list(self.kind))

    def one(self, record: RecordBytes) -> Any:
        row: dict[str, Any] = {}
        for field in self.fields:
            value = inside(field.name, field.node.one, record)
            if field.column is not None and self.kind is not None:
                row[self.kind.field(field.column).name] = _present(field.name, value, self.kind.field(field.column))
        for index, constant in self.constants:
            if self.kind is not None:
                name = self.kind.field(index).name
                row[name] = _present(name, constant.as_py(), self.kind.field(index))
        return row


@dataclass(frozen=True)
class UnionNode:
    branches: tuple[Node, ...]
    kind: pa.DataType | None

    def many(self, cursor: Cursor) -> pa.Array:
        index = cursor.whole_number(bits=32)
        cursor.fail((index < 0) | (index >= len(self.branches)))
        pieces = []
        for number, branch in enumerate(self.branches):
            rows = np.flatnonzero((index == number) & ~cursor.bad)
            if len(rows):
                part = cursor.only(rows)
                pieces.append((rows, branch.many(part)))
                cursor.take_back(rows, part)
        return assemble(len(cursor), pieces, self.kind) if self.kind is not None else None

    def one(self, record: RecordBytes) -> Any:
        index = record.whole_number(bits=32)
        if not 0 <= index < len(self.branches):
            raise Unfit("no branch of the union")
        return self.branches[index].one(record)


@dataclass(frozen=True)
class ArrayNode:
    item: Node
    kind: pa.ListType | None

    def many(self, cursor: Cursor) -> pa.Array:
        items: list[pa.Array] = []

        def read(some: Cursor) -> None:
            values = self.item.many(some)
            if self.kind is not None:
                _refuse_null(values, self.kind.value_field, some)
                items.append(values)

        offsets, order = _read_items(cursor, read)
        if self.kind is None:
            return None
        flat = pa.concat_arrays(items).take(order) if items else pa.array([], self.kind.value_type)
        return pa.ListArray.from_arrays(offsets, flat, type=self.kind)

    def one(self, record: RecordBytes) -> Any:
        items: list[Any] = []
        while count := record.block():
            for _ in range(count):
                value = inside(str(len(items)), self.item.one, record)
                items.append(value if self.kind is None else _present(str(len(items)), value, self.kind.value_field))
        return items


@dataclass(frozen=True)
class MapNode:
    key: Node
    value: Node
    kind: pa.MapType | None

    def many(self, cursor: Cursor) -> pa.Array:
        keys: list[pa.Array] = []
        items: list[pa.Array] = []

        def read(some: Cursor) -> None:
            key, value = self.key.many(some), self.value.many(some)
            if self.kind is not None:
                _refuse_null(value, self.kind.item_field, some)
                keys.append(key)
                items.append(value)

        offsets, order = _read_items(cursor, read)
        if self.kind is None:
            return None
        if not keys:
            keys, items = [pa.array([], self.kind.key_type)], [pa.array([], self.kind.item_type)]
        flat = pa.concat_arrays(keys).take(order)
        # Of two equal keys the last one counts; that is rare, and left to `one`.
        codes = pc.fill_null(flat.dictionary_encode().indices, -1).to_numpy()
        owners = np.repeat(np.arange(len(cursor)), np.diff(offsets))
        _, first = np.unique(np.stack((owners, codes)), axis=1, return_index=True)
        twice = np.ones(len(owners), np.bool_)
        twice[first] = False
        ambiguous = np.zeros(len(cursor), np.bool_)
        ambiguous[owners[twice]] = True
        cursor.fail(ambiguous)
        # Arrow allows no null key, not even in a row that is dropped later.
        flat = flat.fill_null(b"" if pa.types.is_binary(flat.type) else "")
        return pa.MapArray.from_arrays(offsets, flat, pa.concat_arrays(items).take(order)).cast(self.kind)

    def one(self, record: RecordBytes) -> Any:
        items: dict[Any, Any] = {}
        while count := record.block():
            for _ in range(count):
                key, place = self.key.one(record), map_entry(len(items))
                value = inside(place, self.value.one, record)
                items[key] = value if self.kind is None else _present(place, value, self.kind.item_field)
        return list(items.items())


def _read_items(cursor: Cursor, read: Callable[[Cursor], None]) -> tuple[pa.Int32Array, pa.Int64Array]:
    """Reads the items of all records: the first item of each, then the second of those that have one, and so on.

    Returns the offsets of each record's items, and the order that sorts the items by record.
    """
    owner: Indexes = np.arange(len(cursor))
    live = cursor.only(owner)
    owners: list[Indexes] = []
    left = _blocks(live)
    while len(owner):
        done = (left == 0) | live.bad
        if done.any():
            cursor.take_back(owner[done], live.only(np.flatnonzero(done)))
            rest = np.flatnonzero(~done)
            owner, left, live = owner[rest], left[rest], live.only(rest)
        elif len(owner) < _FEWEST and len(owners) > _ROUNDS_FOR_FEW:
            live.fail(np.ones(len(owner), np.bool_))
        else:
            read(live)
            owners.append(owner)
            left = left - 1
            ended = np.flatnonzero(left == 0)
            if len(ended):
                part = live.only(ended)
                left[ended] = _blocks(part)
                live.take_back(ended, part)
    all_owners = np.concatenate(owners) if owners else np.zeros(0, np.int64)
    counts = np.bincount(all_owners, minlength=len(cursor))
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.array(offsets), pa.array(np.argsort(all_owners, kind="stable"))


def _blocks(cursor: Cursor) -> Indexes:
    """The number of items in each record's next block; 0 at the end. As `RecordBytes.block`."""
    count = cursor.whole_number()
    negative = np.flatnonzero(count < 0)
    if len(negative):
        part = cursor.only(negative)
        size = part.whole_number()
        part.fail((size < 0) | (size > part.end - part.position))
        cursor.take_back(negative, part)
        count = np.abs(count)  # the minimum of int64 stays negative, and fails below
    cursor.fail((count < 0) | (count > cursor.end - cursor.position))
    return np.where(cursor.bad, 0, count)


def _refuse_null(values: pa.Array, field: pa.Field, cursor: Cursor) -> None:
    if not field.nullable and values.null_count:
        cursor.fail_where(values, pc.is_null)


def _present(name: str, value: Any, field: pa.Field) -> Any:
    if value is None and not field.nullable:
        raise Unfit("null in a column that is NOT NULL", (name,))
    return value

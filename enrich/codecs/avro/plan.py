"""Compiles a writer's schema, the table's own schema, if any, and the columns to the node that reads a record."""

from collections.abc import Mapping

import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.codecs.avro.defaults import default_value
from enrich.codecs.avro.leaves import MismatchError, leaf, no_fit
from enrich.codecs.avro.nested import ArrayNode, MapNode, RecordField, RecordNode, UnionNode
from enrich.codecs.avro.node import Misfit, Node
from enrich.codecs.avro.schemas.resolution import branch_for, matches
from enrich.codecs.avro.schemas.types import (
    NO_DEFAULT,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    describe,
)

# A schema of thirty lines can expand to a billion fields, if each record is used twice in the next one.
_MOST_NODES = 5_000


def compile_plan(writer: Record, reader: Record | None, kind: pa.StructType) -> Node:
    """Raises ConfigError if the columns cannot be filled, or the table's schema cannot read what the writer's schema
    wrote; the message names the column but no value. A column that the writer does not have is null."""
    try:
        return _Compiler().compile(writer, reader or writer, kind)
    except MismatchError as error:
        raise ConfigError(str(error)) from None


class _Compiler:
    def __init__(self) -> None:
        self._nodes = 0

    def compile(self, writer: AvroType, reader: AvroType, kind: pa.DataType | None) -> Node:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise MismatchError(f"the avro schema has more than {_MOST_NODES} fields, with those of nested records")
        if isinstance(writer, Union):
            return self._union(writer, reader, kind)
        if isinstance(reader, Union):
            branch = branch_for(writer, reader)
            if branch is None:
                raise MismatchError(f"{describe(writer)} cannot be read as {describe(reader)}")
            reader = branch
        elif not matches(writer, reader):
            raise MismatchError(f"{describe(writer)} cannot be read as {describe(reader)}")
        match writer, reader:
            case Record(), Record():
                return self._record(writer, reader, kind)
            case Array(), Array():
                return self._array(writer, reader, kind)
            case Map(), Map():
                return self._map(writer, reader, kind)
            case ((Primitive() | Fixed() | Enum()), (Primitive() | Fixed() | Enum())):
                return leaf(writer, reader, kind)
        raise MismatchError(f"{describe(writer)} cannot be read as {describe(reader)}")

    def _union(self, writer: Union, reader: AvroType, kind: pa.DataType | None) -> Node:
        branches: list[Node] = []
        misfits: list[MismatchError] = []
        for branch in writer.branches:
            # If the table has no schema of its own, each branch is read as itself.
            branch_reader = branch if reader is writer else reader
            try:
                branches.append(self.compile(branch, branch_reader, kind))
            except MismatchError as error:
                if kind is None:
                    raise
                misfits.append(error)
                branches.append(Misfit(str(error), kind))
        fitting = [
            branch
            for branch, node in zip(writer.branches, branches, strict=True)
            if not isinstance(node, Misfit) and branch != Primitive("null")
        ]
        if misfits and not fitting:
            raise misfits[0]
        return UnionNode(tuple(branches), kind)

    def _array(self, writer: Array, reader: Array, kind: pa.DataType | None) -> Node:
        if not _has_bytes(writer.items, {}):
            # The number of items would be unbounded.
            raise MismatchError(f"an array of {describe(writer.items)}, whose items have no bytes, is refused")
        if kind is not None and not pa.types.is_list(kind):
            raise no_fit(writer, kind)
        return ArrayNode(self.compile(writer.items, reader.items, kind and kind.value_type), kind)

    def _map(self, writer: Map, reader: Map, kind: pa.DataType | None) -> Node:
        if kind is not None and not pa.types.is_map(kind):
            raise no_fit(writer, kind)
        key = leaf(Primitive("string"), Primitive("string"), kind and kind.key_type)
        return MapNode(key, self.compile(writer.values, reader.values, kind and kind.item_type), kind)

    def _record(self, writer: Record, reader: Record, kind: pa.DataType | None) -> Node:
        if kind is None:
            return RecordNode(self._fields(writer, {}, None), (), None)
        if not pa.types.is_struct(kind):
            raise no_fit(writer, kind)
        wanted = _wanted(writer, reader, kind)
        fields = self._fields(writer, wanted, kind)
        filled = {field.column for field in fields}
        constants = tuple((i, _constant(reader, kind.field(i))) for i in range(kind.num_fields) if i not in filled)
        return RecordNode(fields, constants, kind)

    def _fields(self, writer: Record, wanted: "_Wanted", kind: pa.StructType | None) -> tuple[RecordField, ...]:
        fields = []
        for field in writer.fields:
            if kind is not None and field.name in wanted:
                column, reader = wanted[field.name]
                fields.append(self._field(field, reader, column, kind.field(column)))
            elif _has_bytes(field.type, {}):  # else there are no bytes to skip
                fields.append(RecordField(field.name, self.compile(field.type, field.type, None), None))
        return tuple(fields)

    def _field(self, field: Field, reader: Field, index: int, column: pa.Field) -> RecordField:
        try:
            return RecordField(field.name, self.compile(field.type, reader.type, column.type), index)
        except MismatchError as error:
            raise MismatchError(f"{column.name}: {error}") from None


_Wanted = Mapping[str, tuple[int, Field]]
"""The writer's fields that fill a column: name -> the column's index, and the reader's field."""


def _wanted(writer: Record, reader: Record, kind: pa.StructType) -> _Wanted:
    written = {field.name for field in writer.fields}
    wanted: dict[str, tuple[int, Field]] = {}
    for field in reader.fields:
        column = kind.get_field_index(field.name)
        source = next((name for name in (field.name, *field.aliases) if name in written), None)
        if source is not None and column >= 0:
            wanted[source] = column, field
    return wanted


def _constant(reader: Record, column: pa.Field) -> pa.Scalar:
    """The value of a column that the writer does not have."""
    field = next((field for field in reader.fields if field.name == column.name), None)
    if field is None:
        return pa.scalar(None, column.type)
    if field.default is NO_DEFAULT:
        raise MismatchError(f"{column.name}: the writer's schema does not have it, and the table's has no default")
    node = _Compiler().compile(field.type, field.type, column.type)
    return default_value(field, node, column.type)


def _has_bytes(kind: AvroType, known: dict[int, bool]) -> bool:
    """Whether each value of the type takes at least one byte. `known`: results for records, which may be used often."""
    match kind:
        case Primitive("null"):
            return False
        case Fixed(_, size):
            return size > 0
        case Record(_, fields):
            if id(kind) not in known:
                known[id(kind)] = any(_has_bytes(field.type, known) for field in fields)
            return known[id(kind)]
    return True

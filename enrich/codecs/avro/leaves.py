"""Which column types each simple Avro type can fill, and with which node."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from enrich.codecs.avro.node import Boolean, Bytes, Floating, Node, Null, Symbol, WholeNumber
from enrich.codecs.avro.schemas import fit
from enrich.codecs.avro.schemas.types import AvroType, Enum, Fixed, Logical, Primitive, describe

_MICROSECONDS = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}


class MismatchError(Exception):
    """A type cannot fill the column, or cannot be resolved to the table's own schema."""


def leaf(writer: Primitive | Fixed | Enum, reader: Primitive | Fixed | Enum, kind: pa.DataType | None) -> Node:
    """The node that reads values of `writer` as `reader`. Without a column (`kind` None) it only skips them."""
    if isinstance(writer, Enum):
        return _symbol(writer, reader if isinstance(reader, Enum) else writer, kind)
    if isinstance(writer, Fixed):
        return Bytes(writer.size, _bytes_fit(_with_logical(reader, writer.logical), kind))
    match writer.name:
        case "null":
            return Null(kind)
        case "boolean":
            return Boolean(_checked(kind, pa.types.is_boolean, reader))
        case "int" | "long":
            bits = 32 if writer.name == "int" else 64
            return WholeNumber(bits, _number_fit(_with_logical(reader, writer.logical), kind))
        case "float" | "double":
            bits = 32 if writer.name == "float" else 64
            return Floating(bits, _checked(kind, lambda kind: _takes_float(reader, kind), reader))
    return Bytes(None, _bytes_fit(_with_logical(reader, writer.logical), kind))


def _with_logical(reader: Primitive | Fixed | Enum, written: Logical | None) -> Primitive | Fixed:
    """The reader's type with the writer's logical type, which determines what the bytes mean."""
    if isinstance(reader, Enum):
        raise MismatchError(f"{describe(reader)} is read from another type")
    return reader if written is None else replace(reader, logical=written)


def _checked(kind: pa.DataType | None, fits: Callable[[pa.DataType], bool], reader: AvroType) -> pa.DataType | None:
    if kind is not None and not fits(kind):
        raise no_fit(reader, kind)
    return kind


def no_fit(avro: AvroType, kind: pa.DataType) -> MismatchError:
    return MismatchError(f"avro's {describe(avro)} cannot fill a column of type {kind}")


def _takes_float(reader: Primitive | Fixed | Enum, kind: pa.DataType) -> bool:
    return pa.types.is_float64(kind) or (pa.types.is_float32(kind) and reader == Primitive("float"))


def _symbol(writer: Enum, reader: Enum, kind: pa.DataType | None) -> Node:
    if kind is not None and not pa.types.is_string(kind):
        raise no_fit(reader, kind)
    known = set(reader.symbols)
    return Symbol(tuple(symbol if symbol in known else reader.default for symbol in writer.symbols), kind)


def _number_fit(avro: Primitive | Fixed, kind: pa.DataType | None) -> fit.Fit | None:
    if kind is None:
        return None
    logical = avro.logical.name if avro.logical else ""
    if pa.types.is_signed_integer(kind) and avro.name in ("int", "long"):
        return fit.integer(kind)
    if pa.types.is_float64(kind) or (pa.types.is_float32(kind) and avro.name in ("int", "long", "float")):
        return fit.floating(kind)
    if pa.types.is_date32(kind) and logical == "date":
        return fit.date(kind)
    unit = _MICROSECONDS.get(logical.removeprefix("local-").removeprefix("timestamp-"))
    if pa.types.is_timestamp(kind) and kind.unit == "us" and unit and "timestamp-" in logical:
        return fit.timestamp(kind, *unit)
    raise no_fit(avro, kind)


def _bytes_fit(avro: Primitive | Fixed, kind: pa.DataType | None) -> fit.Fit | None:
    if kind is None:
        return None
    logical = avro.logical
    if pa.types.is_decimal128(kind) and logical and logical.name == "decimal" and logical.precision <= 38:
        return fit.decimal(kind, logical.scale)
    if isinstance(avro, Fixed):
        if pa.types.is_string(kind) and logical == Logical("uuid") and avro.size == 16:
            return fit.uuid_text(kind)
    elif pa.types.is_string(kind) and avro.name == "string":
        return fit.text(kind)
    if pa.types.is_binary(kind) and (isinstance(avro, Fixed) or avro.name == "bytes"):
        return fit.binary(kind)
    raise no_fit(avro, kind)

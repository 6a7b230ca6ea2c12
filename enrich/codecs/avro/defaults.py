"""Converts the default of a field to a column value: encodes it as Avro, then decodes it like a record."""

import struct
from typing import Any

import pyarrow as pa

from enrich.codecs.avro.leaves import MismatchError
from enrich.codecs.avro.node import Node
from enrich.codecs.avro.record import RecordBytes
from enrich.codecs.avro.schemas.types import Array, AvroType, Enum, Field, Fixed, Map, Primitive, Record, Union
from enrich.codecs.unfit import Unfit


def default_value(field: Field, node: Node, kind: pa.DataType) -> pa.Scalar:
    """Raises MismatchError for an invalid default."""
    try:
        value = node.one(RecordBytes(_written(field.type, field.default)))
        return pa.array([value], kind)[0]
    except (Unfit, ValueError, struct.error, OverflowError):
        raise MismatchError(f"{field.name}: the table's schema has a default that does not fit its type") from None


def _written(kind: AvroType, value: Any) -> bytes:
    """Encodes the JSON form of a default as Avro. Raises ValueError if it has another type."""
    match kind, value:
        case Primitive("null"), None:
            return b""
        case Primitive("boolean"), bool():
            return bytes([value])
        case Primitive("int" | "long"), int() if not isinstance(value, bool):
            return _number(value)
        case Primitive("float"), int() | float():
            return struct.pack("<f", value)
        case Primitive("double"), int() | float():
            return struct.pack("<d", value)
        case Primitive("string"), str():
            return _number(len(value.encode())) + value.encode()
        case Primitive("bytes"), str():  # each character stands for a byte
            return _number(len(value)) + value.encode("latin-1")
        case Fixed(_, size), str() if len(value) == size:
            return value.encode("latin-1")
        case Enum(_, symbols), str():
            return _number(symbols.index(value))
        case Array(items), list():
            return b"".join([*(_number(1) + _written(items, item) for item in value), b"\0"])
        case Map(values), dict():
            entries = (_number(1) + _written(Primitive("string"), k) + _written(values, v) for k, v in value.items())
            return b"".join([*entries, b"\0"])
        case Record(_, fields), dict():
            return b"".join(_written(field.type, value.get(field.name, field.default)) for field in fields)
        case Union(branches), _:
            return _branch(branches, value)
    raise ValueError


def _branch(branches: tuple[AvroType, ...], value: Any) -> bytes:
    # Older specifications only allow the first branch, newer ones any.
    for index, branch in enumerate(branches):
        try:
            return _number(index) + _written(branch, value)
        except (ValueError, struct.error, OverflowError):
            continue
    raise ValueError


def _number(value: int) -> bytes:
    if not -(2**63) <= value < 2**63:
        raise ValueError
    rest = value << 1 if value >= 0 else ~(value << 1)
    written = bytearray()
    while rest >= 0x80:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])

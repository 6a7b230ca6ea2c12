"""Which Avro values become which column values, and which schemas are refused."""

import datetime as dt
import decimal
import json
import uuid

import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError
from enrich.codecs import BareAvro
from tests.property.codecs.avro_values import logical, written

UTC = pa.timestamp("us", tz="UTC")
SIZES = (1, 100)  # one record at a time, and many at once


def schema(kind, **more):
    return {"type": "record", "name": "R", "fields": [{"name": "c", "type": kind, **more}]}


def decoder(avro, kind, nullable=True):
    return BareAvro(pa.schema([pa.field("c", kind, nullable=nullable)]), json.dumps(schema(avro)))


def both_ways(decoder, body):
    """The one row and the one reason, which must not depend on the neighbours."""
    answers = []
    for size in SIZES:
        decoded = decoder.decode(pa.array([body] * size, pa.binary()))
        rows = decoded.rows.to_pylist()
        assert rows == rows[:1] * size
        assert decoded.bad == dict.fromkeys(range(size), decoded.bad[0]) if decoded.bad else True
        answers.append((rows[0], decoded.bad.get(0)))
    assert answers[0] == answers[1]
    return answers[0]


@pytest.mark.parametrize(
    ("avro", "kind", "value", "expected"),
    [
        ("int", pa.int8(), -128, -128),
        ("long", pa.int16(), 32767, 32767),
        ("long", pa.int64(), -(2**63), -(2**63)),
        ("int", pa.float64(), 3, 3.0),
        ("long", pa.float32(), 2**24 + 1, 2.0**24),
        ("float", pa.float64(), 0.5, 0.5),
        ("double", pa.float64(), float("inf"), float("inf")),
        (["null", "string"], pa.string(), None, None),
        ("null", pa.string(), None, None),
        (["int", "null", "long"], pa.int64(), 2**40, 2**40),
        (logical("int", "date"), pa.date32(), dt.date(1, 1, 1), dt.date(1, 1, 1)),
        (logical("int", "date"), pa.int32(), dt.date(1970, 1, 2), 1),
        (logical("long", "timestamp-millis"), UTC, 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1000, dt.UTC)),
        (logical("long", "timestamp-micros"), UTC, -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)),
        (logical("long", "timestamp-nanos"), UTC, -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)),
        (logical("long", "local-timestamp-micros"), UTC, 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5, dt.UTC)),
        (logical("long", "timestamp-micros"), pa.int64(), 5, 5),
        (logical("bytes", "decimal", precision=4, scale=2), pa.decimal128(4, 2), b"", decimal.Decimal("0.00")),
        (logical("bytes", "decimal", precision=4, scale=2), pa.decimal128(4, 2), b"\xff\xff", decimal.Decimal("-0.01")),
        (logical("bytes", "decimal", precision=4, scale=2), pa.decimal128(9, 4), b"\x01", decimal.Decimal("0.0100")),
        (logical("bytes", "decimal", precision=4, scale=2), pa.decimal128(4, 1), b"\x0a", decimal.Decimal("0.1")),
        (
            logical("bytes", "decimal", precision=4, scale=2),
            pa.decimal128(4, 2),
            b"\0" * 30 + b"\1",
            decimal.Decimal("0.01"),
        ),
        (logical("bytes", "decimal", precision=4, scale=2), pa.binary(), b"\x01", b"\x01"),
        (logical("bytes", "decimal", precision=0), pa.binary(), b"\x01", b"\x01"),
        (logical("string", "uuid"), pa.string(), str(uuid.UUID(int=5)), str(uuid.UUID(int=5))),
        (
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            pa.string(),
            uuid.UUID(int=5).bytes,
            str(uuid.UUID(int=5)),
        ),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
        (
            {"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]},
            pa.struct([("y", pa.string()), ("z", pa.int32())]),
            {"x": 1, "y": "b"},
            {"y": "b", "z": None},
        ),
    ],
)
def test_values_of_the_right_type_are_read(avro, kind, value, expected):
    assert both_ways(decoder(avro, kind), written(schema(avro), {"c": value})) == ({"c": expected}, None)


@pytest.mark.parametrize(
    ("avro", "kind", "value", "reason"),
    [
        ("int", pa.int8(), 128, "c: a whole number of 8 bits cannot hold the value"),
        ("long", pa.int32(), -(2**31) - 1, "c: a whole number of 32 bits cannot hold the value"),
        (["int", "string"], pa.int32(), "x", "c: avro's string cannot fill a column of type int32"),
        (logical("int", "date"), pa.date32(), 2**30, "c: a date outside the years 1 to 9999"),
        (logical("long", "timestamp-millis"), UTC, 2**60, "c: a time outside the years 1 to 9999"),
        (logical("long", "timestamp-micros"), UTC, -(2**63), "c: a time outside the years 1 to 9999"),
        (logical("bytes", "decimal", precision=4, scale=2), pa.decimal128(4, 2), b"\x7f\xff", "c: decimal(4,2) cannot"),
        (logical("bytes", "decimal", precision=4, scale=2), pa.decimal128(4, 1), b"\x0b", "c: decimal(4,1) cannot"),
        (logical("bytes", "decimal", precision=4, scale=2), pa.decimal128(4, 2), b"\1" * 17, "c: decimal(4,2) cannot"),
        (
            logical("bytes", "decimal", precision=4, scale=2),
            pa.decimal128(4, 2),
            b"\1" + b"\0" * 15 + b"\1",
            "c: decimal(4,2) cannot",
        ),
        (logical("bytes", "decimal", precision=38), pa.decimal128(38, 0), b"\x7f" * 16, "c: decimal(38,0) cannot"),
        ({"type": "array", "items": "int"}, pa.list_(pa.int8()), [1, 300], "c.1: a whole number of 8 bits"),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int8()), {"k": 300}, "c.{0}: a whole number of 8"),
    ],
)
def test_what_the_column_cannot_hold_is_bad(avro, kind, value, reason):
    row, told = both_ways(decoder(avro, kind), written(schema(avro), {"c": value}))
    assert row is None
    assert told.startswith(reason)


def test_null_is_bad_where_the_column_is_not_null():
    body = written(schema(["null", "int"]), {"c": None})
    assert both_ways(decoder(["null", "int"], pa.int32(), nullable=False), body) == (
        None,
        "c: null in a column that is NOT NULL",
    )
    items = pa.list_(pa.field("item", pa.int32(), nullable=False))
    avro = {"type": "array", "items": ["null", "int"]}
    _, reason = both_ways(decoder(avro, items), written(schema(avro), {"c": [1, None]}))
    assert reason == "c.1: null in a column that is NOT NULL"


def test_the_last_of_two_equal_keys_of_a_map_counts():
    avro = {"type": "map", "values": "int"}
    body = b"\x04\x02a\x02\x02a\x04\x00"
    assert both_ways(decoder(avro, pa.map_(pa.string(), pa.int32())), body) == ({"c": [("a", 2)]}, None)


@pytest.mark.parametrize(
    ("avro", "kind", "message"),
    [
        ("long", pa.string(), "c: avro's long cannot fill a column of type string"),
        ("string", pa.binary(), "string cannot fill"),
        ("bytes", pa.string(), "bytes cannot fill"),
        ("double", pa.float32(), "double cannot fill"),
        ("double", pa.int64(), "double cannot fill"),
        ("boolean", pa.int8(), "boolean cannot fill"),
        ("long", UTC, "long cannot fill"),
        ("int", pa.decimal128(9, 0), "int cannot fill"),
        ("bytes", pa.decimal128(9, 0), "bytes cannot fill"),
        ({"type": "array", "items": "int"}, pa.int32(), "array cannot fill"),
        ({"type": "array", "items": "string"}, pa.list_(pa.int32()), "c: avro's string"),
        ({"type": "array", "items": "null"}, pa.list_(pa.int32()), "items have no bytes"),
        (["null", "string"], pa.int32(), "string cannot fill"),
        ({"type": "record", "name": "S", "fields": []}, pa.int32(), "record S cannot fill"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.int32(), "enum E cannot fill"),
    ],
)
def test_a_column_that_the_schema_cannot_fill_is_refused_at_start(avro, kind, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        decoder(avro, kind)


def _linked(depth):
    """Each record twice in the next one: two to the power of the depth fields."""
    inner: object = "long"
    for number in range(depth):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"L{number - 1}" if number else "long"}]
        inner = {"type": "record", "name": f"L{number}", "fields": fields}
    return inner


def _beside(kind):
    """A schema that can fill the column, and has a field that nobody asks for."""
    return {"type": "record", "name": "R", "fields": [{"name": "c", "type": "int"}, {"name": "d", "type": kind}]}


def _deep(depth):
    kind: object = "int"
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an avro schema"),
        ("{}", "not an avro schema"),
        ('"string"', "not that of a record"),
        (json.dumps(schema("strin")), "unknown type, strin"),
        (json.dumps(schema(["null", "R"])), "R contains itself"),
        (json.dumps(schema({"type": "array", "items": "R"})), "R contains itself"),
        (json.dumps(schema({"type": "map", "values": ["R"]})), "R contains itself"),
        (json.dumps(_beside(_linked(30))), "more than 5000 fields"),
        (json.dumps(_beside({"type": "array", "items": _linked(60)})), "more than 5000 fields"),
        (json.dumps(schema(_deep(100))), "nested more than 64 deep"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_start(text, message):
    with pytest.raises(ConfigError, match=message):
        BareAvro(pa.schema([("c", pa.int32())]), text)


def test_a_column_that_is_no_field_is_refused_and_the_fields_are_named():
    with pytest.raises(ConfigError, match="column d is no field of the avro schema; its fields: c"):
        BareAvro(pa.schema([("d", pa.int32())]), json.dumps(schema("int")))

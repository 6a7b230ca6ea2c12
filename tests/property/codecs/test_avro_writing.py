"""Columns that are written as Avro at once have the bytes that fastavro writes row by row."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from enrich.codecs.avro.encoding.rows import AvroEncoder
from enrich.codecs.avro.encoding.writing import AvroWriter, NoWay
from tests.property.codecs.avro_values import Typed, records, written

HEADER = b"\0\0\0\0\7"


@given(st.data())
def test_the_bytes_are_those_of_fastavro(data):
    typed: Typed = data.draw(records)
    values = data.draw(st.lists(st.none() | typed.values, min_size=1, max_size=6))
    writer = AvroWriter(json.dumps(typed.schema), 7, typed.kind)
    try:
        writer.check()
    except NoWay:
        # What a cast in `select` has to decide: fewer digits, less precision.
        assert "decimal128(20, 5)" in str(typed.kind) or "double" in str(typed.kind)
        assume(False)
    start = data.draw(st.integers(0, len(values) - 1))
    rows = pa.array(values, typed.kind).slice(start)
    wanted = [None if value is None else HEADER + written(typed.schema, value) for value in values[start:]]
    assert writer.write(rows).to_pylist() == wanted
    one_by_one = [writer.write(rows.slice(index, 1))[0].as_py() for index in range(len(rows))]
    assert one_by_one == wanted
    assert len(writer.write(rows.slice(0, 0))) == 0


def record(record_name: str = "R", **fields: Any) -> dict[str, Any]:
    own = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": record_name, "fields": own}


def bytes_of(schema: dict[str, Any], kind: pa.StructType, *rows: Any) -> list[bytes | None]:
    found = AvroWriter(json.dumps(schema), 7, kind).write(pa.array(rows, kind)).to_pylist()
    return [None if each is None else each.removeprefix(HEADER) for each in found]


def test_a_value_that_does_not_fit_makes_its_row_null_and_no_other():
    many = {"type": "array", "items": record("Inner", n="int")}
    kind = pa.struct([("rows", pa.list_(pa.struct([("n", pa.int64())])))])
    good, large, null = {"rows": [{"n": 1}]}, {"rows": [{"n": 1}, {"n": 2**31}]}, {"rows": [{"n": None}]}
    assert bytes_of(record(rows=many), kind, good, large, null, None, good, {"rows": None}) == [
        b"\2\2\0", None, None, None, b"\2\2\0", None,
    ]  # fmt: skip
    enum = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
    assert bytes_of(record(e=enum), pa.struct([("e", pa.string())]), {"e": "b"}, {"e": "c"}) == [b"\2", None]
    fixed = {"type": "fixed", "name": "F", "size": 2}
    assert bytes_of(record(f=fixed), pa.struct([("f", pa.binary())]), {"f": b"xy"}, {"f": b"x"}) == [b"xy", None]
    money = {**fixed, "logicalType": "decimal", "precision": 4, "scale": 2}
    cents = pa.struct([("m", pa.decimal128(4, 2))])
    found = bytes_of(record(m=money), cents, {"m": Decimal("99.99")}, {"m": Decimal(-1)})
    assert found == [b"\x27\x0f", b"\xff\x9c"]


def test_a_field_without_a_column_has_its_default_and_types_are_known_by_their_names():
    inner = {"type": "record", "name": "a.b.I", "fields": [{"name": "x", "type": "long"}]}
    again = {"name": "two", "type": ["null", "a.b.I"]}
    other = {"name": "note", "type": ["string", "null"], "default": "n"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "one", "type": inner}, other, again]}
    kind = pa.struct([("two", pa.struct([("x", pa.int32())])), ("one", pa.struct([("x", pa.int64())]))])
    one = {"one": {"x": 3}, "two": {"x": 4}}
    assert bytes_of(schema, kind, one, {**one, "two": None}) == [b"\6\0\2n\2\x08", b"\6\0\2n\0"]


STATUS = {"type": "enum", "name": "Status", "symbols": ["a", "b"]}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "bytes", "default": "\u00ff"}]}


@pytest.mark.parametrize("namespace", [{}, {"namespace": "x.y"}])
@pytest.mark.parametrize(
    ("type_", "default", "body"),
    [
        (["null", "Status"], None, b"\0"),
        ("Status", "b", b"\2"),
        (["null", "Outer"], None, b"\0"),
        ("bytes", "", b"\0"),
        ("bytes", "\u00ff", b"\2\xff"),
        ({"type": "bytes"}, "a", b"\2a"),
        (["bytes", "null"], "a", b"\0\2a"),
        (["null", "bytes"], None, b"\0"),
        (["string", "bytes"], "a", b"\0\2a"),
        ({"type": "fixed", "name": "F", "size": 2}, "\0\1", b"\0\1"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001", b"\2\1"),
        ({"type": "array", "items": "bytes"}, ["a", ""], b"\4\2a\0\0"),
        ({"type": "map", "values": ["null", "bytes"]}, {"k": "a"}, b"\2\2k\2\2a\0"),
        (INNER, {}, b"\2\xff"),
        (INNER, {"x": "a"}, b"\2a"),
        (["null", INNER], None, b"\0"),
    ],
)
def test_defaults_of_any_type_are_written_by_routes_and_by_sources(type_, default, body, namespace):
    fields = [{"name": "one", "type": STATUS}, {"name": "two", "type": type_, "default": default}]
    schema = {"type": "record", "name": "Outer", **namespace, "fields": fields}
    kind = pa.struct([("one", pa.string())])
    assert bytes_of(schema, kind, {"one": "b"}) == [b"\2" + body]
    rows = pa.record_batch({"one": ["b"]})
    encoder = AvroEncoder(json.dumps(schema))
    encoder.check(rows.schema)
    assert encoder.encode(rows).values.to_pylist() == [b"\2" + body]


def test_of_several_branches_the_first_that_takes_the_type_is_written():
    schema = record(v=["null", "string", "long", "double"])
    assert bytes_of(schema, pa.struct([("v", pa.int32())]), {"v": 1}, {"v": None}) == [b"\4\2", b"\0"]
    assert bytes_of(schema, pa.struct([("v", pa.null())]), {"v": None}) == [b"\0"]


@pytest.mark.parametrize(
    ("type_", "kind", "message"),
    [
        ("string", pa.int64(), "v is of type int64, and the schema has string"),
        ("int", pa.float64(), "v is of type double, and the schema has int"),
        ("float", pa.float64(), "v is of type double, and the schema has float"),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us"), r"long \(timestamp-millis\)"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us", "UTC"), "local-timestamp"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, pa.decimal128(9, 2), "decimal"),
        ({"type": "array", "items": "int"}, pa.list_(pa.string()), "an element of v is of type string"),
        (record(x="int"), pa.struct([("y", pa.int32())]), "v has y, and the schema has only x"),
        (record(x="int"), pa.struct([]), "v has no x, and the schema has no default for it"),
        (["null"], pa.int32(), "has only null"),
    ],
)
def test_a_type_that_a_schema_cannot_take_is_told_before_anything_is_written(type_, kind, message):
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "v", "type": type_}]}
    with pytest.raises(NoWay, match=message):
        AvroWriter(json.dumps(outer), 7, pa.struct([("v", kind)])).check()


def test_a_record_of_nothing_but_defaults_is_written_for_each_row():
    inner = {"type": "record", "name": "D", "fields": [{"name": "x", "type": "int", "default": 1}]}
    empty = {"type": "record", "name": "N", "fields": []}
    kind = pa.struct([("d", pa.struct([])), ("n", pa.struct([]))])
    assert bytes_of(record(d=inner, n=empty), kind, {"d": {}, "n": {}}, {"d": None, "n": {}}) == [b"\2", None]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_decimal_has_as_few_bytes_as_two_s_complement_needs(size):
    least = -(2 ** (8 * size - 1))
    money = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 0}
    kind = pa.struct([("m", pa.decimal128(12, 0))])
    rows = [{"m": Decimal(least)}, {"m": Decimal(least - 1)}]
    expected = [least.to_bytes(size, "big", signed=True), (least - 1).to_bytes(size + 1, "big", signed=True)]
    assert bytes_of(record(m=money), kind, *rows) == [bytes([2 * len(each)]) + each for each in expected]

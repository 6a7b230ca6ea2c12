"""Records that claim more than they hold: refused at once, whatever they claim."""

import json
import time
import tracemalloc

import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError
from enrich.codecs import BareAvro
from enrich.codecs.avro.schemas.types import load_schema
from tests.support.seed import random_source
from tests.unit.codecs.test_avro_types import both_ways, schema

STRINGS = {"type": "array", "items": "string"}
NESTED = {"type": "array", "items": {"type": "array", "items": "boolean"}}
MAP = {"type": "map", "values": "long"}


def number(value):
    """A zigzag number."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def with_after(avro):
    """A schema with one more field."""
    return {**schema(avro), "fields": [*schema(avro)["fields"], {"name": "after", "type": "int"}]}


HOSTILE = [
    ("string", number(2**62), "the record is cut short"),
    ("string", number(2**63 - 1), "the record is cut short"),
    ("string", number(-1), "a length below zero"),
    ("string", number(-(2**63)), "a length below zero"),
    ("string", b"\xff" * 20, "a number of more than 64 bits"),
    ("long", b"\xff" * 9 + b"\x02", "a number of more than 64 bits"),
    ("long", b"\xff" * 9, "the record is cut short"),
    ("long", b"", "the record is cut short"),
    ("int", number(2**31), "a number of more than 32 bits"),
    ("boolean", b"\x02", "neither true nor false"),
    ("boolean", b"", "the record is cut short"),
    ("double", b"\0" * 7, "the record is cut short"),
    ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"\0" * 9, "the record is cut short"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, number(1), "no symbol of the enum"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, number(-1), "no symbol of the enum"),
    (["null", "int"], number(2), "no branch of the union"),
    (["null", "int"], number(-1), "no branch of the union"),
    (STRINGS, number(2**62), "more items than the record has bytes"),
    (STRINGS, number(-(2**63)) + number(0), "more items than the record has bytes"),
    (STRINGS, number(-1) + number(-5), "the record is cut short"),
    (STRINGS, number(-1) + number(2**40), "the record is cut short"),
    (STRINGS, number(-1) + number(2**40) + number(1) + b"a\0" + number(1), "the record is cut short"),
    (STRINGS, number(-1) + number(-5) + number(1) + b"a\0" + number(1), "the record is cut short"),
    (STRINGS, number(1) + number(1) + b"a", "the record is cut short"),
    (NESTED, number(3) + number(1) + b"\1\0" + number(2**40) + b"\1", "more items than the record has bytes"),
    (MAP, number(2**50) + b"\0", "more items than the record has bytes"),
    (MAP, number(1) + number(2**50), "the record is cut short"),
]


@pytest.mark.parametrize(("avro", "body", "reason"), HOSTILE)
def test_an_absurd_claim_is_refused(avro, body, reason):
    kinds = {
        "string": pa.string(),
        "long": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "double": pa.float64(),
    }
    kind = kinds.get(str(avro))
    if kind is None:
        column = pa.schema([("after", pa.int32())])
        _, told = both_ways(BareAvro(column, json.dumps(with_after(avro))), body + (b"" if "cut" in reason else b"\2"))
    else:
        _, told = both_ways(BareAvro(pa.schema([("c", kind)]), json.dumps(schema(avro))), body)
    assert told.endswith(reason)


@pytest.mark.parametrize("size", [1, 100])
def test_absurd_claims_take_neither_memory_nor_time(size):
    lists = pa.list_(pa.string())
    decoder = BareAvro(pa.schema([("c", lists)]), json.dumps(schema(STRINGS)))
    bodies = pa.array([number(2**40) + b"\0" * 1000] * size, pa.binary())
    tracemalloc.start()
    before, started = pa.total_allocated_bytes(), time.process_time()
    decoded = decoder.decode(bodies)
    assert len(decoded.bad) == size
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 2**20
    assert time.process_time() - started < 5


def test_one_long_record_does_not_hold_up_the_others():
    long = number(200_000) + b"\0" * 200_000 + b"\0"
    short = number(1) + b"\0" + b"\0"
    decoder = BareAvro(pa.schema([("c", pa.list_(pa.string()))]), json.dumps(schema(STRINGS)))
    started = time.process_time()
    decoded = decoder.decode(pa.array([*([short] * 1000), long], pa.binary()))
    assert decoded.bad == {}
    assert len(decoded.rows[1000]["c"]) == 200_000
    # A round of array operations for each of its items would take half a minute.
    assert time.process_time() - started < 5


def test_an_int_of_more_than_32_bits_is_bad_also_where_the_column_could_hold_it():
    decoder = BareAvro(pa.schema([("c", pa.int64())]), json.dumps(schema("int")))
    assert both_ways(decoder, number(2**31)) == (None, "c: a number of more than 32 bits")
    assert both_ways(decoder, number(-(2**31))) == ({"c": -(2**31)}, None)


def test_bytes_left_over_are_bad():
    decoder = BareAvro(pa.schema([("c", pa.int32())]), json.dumps(schema("int")))
    assert both_ways(decoder, b"\2\0") == (None, "bytes left over after the record")


def test_an_empty_value_is_a_record_without_fields_and_else_bad():
    empty = {"type": "record", "name": "R", "fields": [{"name": "c", "type": "null"}]}
    assert both_ways(BareAvro(pa.schema([("c", pa.int32())]), json.dumps(empty)), b"") == ({"c": None}, None)


NO_SCHEMAS = [
    {"type": "fixed", "name": "F", "size": "5"},
    {"type": "fixed", "name": "F", "size": -1},
    {"type": "fixed", "name": "F", "size": True},
    {"type": "fixed", "name": "F", "size": 2**31},
    {"type": "fixed", "name": "F", "size": 2**70},
    {"type": "enum", "name": "E", "symbols": []},
    {"type": "enum", "name": "E", "symbols": "AB"},
]


@pytest.mark.parametrize("avro", NO_SCHEMAS)
def test_a_type_that_no_value_can_have_is_refused_with_its_schema(avro):
    with pytest.raises(ConfigError, match=f"not an avro schema: .* {avro['name']} "):
        load_schema(json.dumps(schema(avro)))


WITHOUT_BYTES = [
    ({"type": "record", "name": "N", "fields": []}, pa.struct([])),
    (["null", {"type": "record", "name": "N", "fields": []}], pa.struct([])),
    ({"type": "map", "values": {"type": "record", "name": "N", "fields": []}}, pa.map_(pa.string(), pa.struct([]))),
    ({"type": "fixed", "name": "F", "size": 0}, pa.binary()),
]


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize(("avro", "kind"), WITHOUT_BYTES)
def test_any_bodies_are_rows_or_bad_where_a_value_has_no_bytes(avro, kind, size):
    random = random_source("values without bytes")
    decoder = BareAvro(pa.schema([("c", kind), ("after", pa.int32())]), json.dumps(with_after(avro)))
    for most in (2, 4, 12):
        bodies = [random.randbytes(random.randrange(most)) for _ in range(size)]
        decoded = decoder.decode(pa.array(bodies, pa.binary()))
        decoded.rows.validate(full=True)
        alone = [decoder.decode(pa.array([body], pa.binary())) for body in bodies]
        assert decoded.rows.to_pylist() == [one.rows[0].as_py() for one in alone]
        assert decoded.bad == {number: one.bad[0] for number, one in enumerate(alone) if one.bad}


@pytest.mark.parametrize("name", [5, None, ["a"], {}, True, "\ud800"])
@pytest.mark.parametrize("place", ["a field's name", "a field's alias", "a type's alias"])
def test_names_that_are_none_make_a_schema_none(name, place):
    kind = {"type": "enum", "name": "E", "symbols": ["A"], "aliases": [name] if place == "a type's alias" else []}
    field = {"name": name if place == "a field's name" else "c", "type": kind}
    field |= {"aliases": [name]} if place == "a field's alias" else {}
    with pytest.raises(ConfigError, match="not an avro schema"):
        load_schema(json.dumps({"type": "record", "name": "R", "fields": [field]}))

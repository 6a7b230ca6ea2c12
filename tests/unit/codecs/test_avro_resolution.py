"""What one schema wrote, read as the table's own schema says."""

import json

import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError, Unreachable
from enrich.codecs import CachedSchemas, FramedAvro
from tests.contract.codecs.decoders import Schemas, framed
from tests.property.codecs.avro_values import logical, written
from tests.unit.codecs.test_avro_types import both_ways, schema


def read(writer, reader, kind, value):
    decoder = FramedAvro(pa.schema([("c", kind)]), Schemas(s1=writer), json.dumps(reader))
    row, reason = both_ways(decoder, framed(1, written(writer, value)))
    return row["c"] if reason is None else reason


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
WIDER = {"type": "enum", "name": "E", "symbols": ["A", "C"], "default": "C"}
NARROWER = {"type": "enum", "name": "x.E", "symbols": ["A"]}


@pytest.mark.parametrize(
    ("writer", "reader", "kind", "value", "expected"),
    [
        ("int", "long", pa.int64(), 5, 5),
        ("int", "double", pa.float64(), 5, 5.0),
        ("long", "float", pa.float32(), 5, 5.0),
        ("float", "double", pa.float64(), 0.5, 0.5),
        ("string", "bytes", pa.binary(), "é", "é".encode()),
        ("bytes", "string", pa.string(), "é".encode(), "é"),
        ("int", ["null", "long"], pa.int64(), 5, 5),
        (["null", "int"], ["null", "long"], pa.int64(), 5, 5),
        (["null", "int"], ["null", "long"], pa.int64(), None, None),
        (["int", "null"], "long", pa.int64(), 5, 5),
        (["int", "null"], "long", pa.int64(), None, "c: null cannot be read as long"),
        ("long", logical("long", "timestamp-millis"), pa.timestamp("us", tz="UTC"), 0, None),
        (ENUM, WIDER, pa.string(), "B", "C"),
        (ENUM, NARROWER, pa.string(), "A", "A"),
        (ENUM, NARROWER, pa.string(), "B", "c: a symbol that the table's schema does not have"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, pa.list_(pa.int64()), [1], [1]),
    ],
)
def test_types_are_read_as_the_specification_says(writer, reader, kind, value, expected):
    got = read(schema(writer), schema(reader), kind, {"c": value})
    assert got == expected if expected is not None or value is None else got.year == 1970


@pytest.mark.parametrize(
    ("writer", "reader", "kind"),
    [
        ("long", "int", pa.int32()),
        ("double", "float", pa.float32()),
        ("string", "int", pa.int32()),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "F", "size": 4}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "G", "size": 4}, pa.binary()),
        ("string", ["null", "int"], pa.int32()),
    ],
)
def test_a_writer_that_the_tables_schema_cannot_read_makes_its_records_bad(writer, reader, kind):
    decoder = FramedAvro(pa.schema([("c", kind)]), Schemas(s1=schema(writer)), json.dumps(schema(reader)))
    row, reason = both_ways(decoder, framed(1, b"\0"))
    assert row is None
    assert reason.startswith("schema 1: c: ")
    assert "cannot be read as" in reason


DEFAULTS = [
    ("int", 5, pa.int32(), 5),
    ("double", 5, pa.float64(), 5.0),
    ({"type": "double", "unit": "EUR"}, 5, pa.float64(), 5.0),
    ({"type": "float"}, 0, pa.float32(), 0.0),
    ("string", "é", pa.string(), "é"),
    ("bytes", "\xff", pa.binary(), b"\xff"),
    ("boolean", True, pa.bool_(), True),
    (["null", "int"], None, pa.int32(), None),
    (["int", "null"], 5, pa.int32(), 5),
    (ENUM, "B", pa.string(), "B"),
    ({"type": "fixed", "name": "F", "size": 2}, "\0\1", pa.binary(), b"\0\1"),
    ({"type": "array", "items": "int"}, [1, 2], pa.list_(pa.int32()), [1, 2]),
    ({"type": "map", "values": "int"}, {"a": 1}, pa.map_(pa.string(), pa.int32()), [("a", 1)]),
    (
        {
            "type": "record",
            "name": "S",
            "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 7}],
        },
        {"x": 1},
        pa.struct([("x", pa.int32()), ("y", pa.int32())]),
        {"x": 1, "y": 7},
    ),
]


@pytest.mark.parametrize(("avro", "default", "kind", "expected"), DEFAULTS)
def test_a_field_that_the_writer_did_not_have_gets_its_default(avro, default, kind, expected):
    writer = {"type": "record", "name": "R", "fields": [{"name": "other", "type": "int"}]}
    assert read(writer, schema(avro, default=default), kind, {"other": 1}) == expected


def test_a_default_of_another_type_makes_the_records_bad():
    writer = {"type": "record", "name": "R", "fields": [{"name": "other", "type": "int"}]}
    reason = read(writer, schema("int", default=2**40), pa.int32(), {"other": 1})
    assert reason == "schema 1: c: the table's schema has a default that does not fit its type"


def test_a_field_without_default_that_the_writer_did_not_have_is_bad():
    writer = {"type": "record", "name": "R", "fields": []}
    reason = read(writer, schema("int"), pa.int32(), {})
    assert reason == "schema 1: c: the writer's schema does not have it, and the table's has no default"


def test_fields_are_found_by_alias_and_records_by_the_last_part_of_their_name():
    writer = {"type": "record", "name": "com.example.R", "fields": [{"name": "old", "type": "int"}]}
    assert read(writer, schema("int", aliases=["old"]), pa.int32(), {"old": 5}) == 5


def test_a_record_of_another_name_is_bad():
    writer = {"type": "record", "name": "Other", "fields": [{"name": "c", "type": "int"}]}
    assert "record Other cannot be read as record R" in read(writer, schema("int"), pa.int32(), {"c": 5})


def test_a_table_schema_that_cannot_fill_the_columns_is_refused_at_start():
    with pytest.raises(ConfigError, match="c: avro's string cannot fill"):
        FramedAvro(pa.schema([("c", pa.int32())]), Schemas(), json.dumps(schema("string")))
    with pytest.raises(ConfigError, match="column d is no field"):
        FramedAvro(pa.schema([("d", pa.int32())]), Schemas(), json.dumps(schema("string")))


def test_without_a_schema_of_its_own_the_table_takes_what_each_writer_has():
    schemas = Schemas(s1=schema("int"), s2=schema(["null", "long"]), s3=schema("string"))
    decoder = FramedAvro(pa.schema([("c", pa.int64())]), schemas)
    values = [framed(1, b"\2"), framed(2, b"\2\4"), framed(3, b"\2a"), None, framed(1, b"\6")]
    decoded = decoder.decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [{"c": 1}, {"c": 2}, None, None, {"c": 3}]
    assert decoded.bad == {2: "schema 3: c: avro's string cannot fill a column of type int64"}


class Counting:
    def __init__(self, schemas):
        self.schemas = schemas
        self.asked = []

    def get(self, schema_id):
        self.asked.append(schema_id)
        return self.schemas.get(schema_id)


def test_each_schema_is_asked_for_once_but_an_unknown_one_again_in_each_batch():
    counting = Counting(Schemas(s1=schema("int")))
    decoder = FramedAvro(pa.schema([("c", pa.int32())]), CachedSchemas(counting))
    for _ in range(3):
        decoder.decode(pa.array([framed(1, b"\2"), framed(1, b"\4"), framed(9, b""), framed(9, b"")], pa.binary()))
    assert counting.asked.count(1) == 1
    assert counting.asked.count(9) == 3


def test_the_cache_forgets_the_schema_that_was_not_used_for_longest():
    counting = Counting(Schemas(s1=schema("int"), s2=schema("int"), s3=schema("int")))
    cached = CachedSchemas(counting, size=2)
    for schema_id in (1, 2, 1, 3, 1, 2):
        cached.get(schema_id)
    assert counting.asked == [1, 2, 3, 2]


def test_a_source_that_is_away_is_the_callers_business():
    class Away:
        def get(self, schema_id):
            raise Unreachable(f"away: {schema_id}")

    decoder = FramedAvro(pa.schema([("c", pa.int32())]), Away())
    with pytest.raises(Unreachable):
        decoder.decode(pa.array([framed(1, b"\2")], pa.binary()))

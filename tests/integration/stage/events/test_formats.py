"""Events that are no JSON: text and bytes."""

import base64
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
import pytest

from tests.support.stage.frames import records, seen
from tests.support.stage.world import StageWorld

SCHEMA = {
    "type": "record",
    "name": "Play",
    "fields": [
        {"name": "device", "type": {"type": "record", "name": "Device", "fields": [{"name": "id", "type": "string"}]}},
        {"name": "n", "type": ["null", "long"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def body(event):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), event)
    return out.getvalue()


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("formats"))
    world.users()
    for name in ("string", "bytes"):
        key = {"string": "lower(value)", "bytes": "value"}[name]
        world.stage(name, [{"table": "users", "key": key, "as": "user", "select": ["plan"]}], topics="all")
        world.document["stages"][name]["source"] = {"topic": world.topic("all.in"), "format": name}
    world.stage("avro", [{"table": "users", "key": "device.id", "as": "user", "select": ["plan"]}], topics="all")
    source = {"topic": world.topic("all.in"), "format": "avro", "schema": json.dumps(SCHEMA)}
    world.document["stages"]["avro"]["source"] = source
    yield world
    world.close()


def made(spark, world, stage, events):
    return [
        json.loads(value) if topic == "out" else headers["enrich.reason"].decode()
        for _, (topic, value, headers) in sorted(seen(records(spark, world, stage, events).collect()).items())
    ]


def test_text_is_a_member_of_the_output_and_what_is_no_text_goes_to_the_dlq(spark, world):
    assert made(spark, world, "string", [b"Ann", 'é"\n'.encode(), b"\xff", b"", None]) == [
        {"value": "Ann", "user": {"plan": "free"}},
        {"value": 'é"\n', "user": None},
        "the event is not UTF-8 text",
        "the event is empty",
        "the event has no value",
    ]


def test_bytes_are_a_key_as_they_are_and_base64_in_the_output(spark, world):
    assert made(spark, world, "bytes", [b"ann", b"\xff\x00", b""]) == [
        {"value": base64.b64encode(b"ann").decode(), "user": {"plan": "free"}},
        {"value": base64.b64encode(b"\xff\x00").decode(), "user": None},
        "the event is empty",
    ]


def test_avro_is_decoded_and_written_as_json_with_every_digit(spark, world):
    event = {
        "device": {"id": "bob"},
        "n": None,
        "at": datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC),
        "price": Decimal("12.30"),
        "kind": "B",
        "tags": ["x", 'y"'],
    }
    good = body(event)
    enriched, *others = made(spark, world, "avro", [good, good[:-3], b"", None])
    assert enriched == {
        "device": {"id": "bob"},
        "n": None,
        "at": "2026-11-21T10:00:00.123456Z",
        "price": 12.3,
        "kind": "B",
        "tags": ["x", 'y"'],
        "user": {"plan": "pro"},
    }
    assert others == [
        "the event is not an Avro body of its schema",
        "the event is empty",
        "the event has no value",
    ]

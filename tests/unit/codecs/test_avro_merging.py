"""Several topics in Avro are read as one record: each field as its topic wrote it, and null where a topic lacks it."""

import json

import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError
from enrich.codecs import FramedAvro
from enrich.codecs.avro.columns import columns_of
from enrich.codecs.avro.schemas.merging import merged
from tests.contract.codecs.decoders import Schemas, framed
from tests.property.codecs.avro_values import written
from tests.unit.codecs.test_avro_types import both_ways

DEVICE = {"type": "record", "name": "Device", "fields": [{"name": "os", "type": "string"}]}
TIME = {"type": "long", "logicalType": "timestamp-millis"}


def record(name, **fields):
    return json.dumps(
        {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}
    )


def columns(**schemas):
    return {field.name: field.type for field in columns_of(merged(schemas))}


PLAYS = record("music.Play", user_id="string", ts=TIME, device=DEVICE, other=["null", "Device"])
ADS = record("shop.Ad", user_id=["null", "string"], ad="int", device=DEVICE)


def test_fields_of_all_topics_are_columns():
    os = pa.struct([pa.field("os", pa.string())])
    time = pa.timestamp("us", tz="UTC")
    expected = {"user_id": pa.string(), "ts": time, "device": os, "other": os, "ad": pa.int32()}
    assert columns(plays=PLAYS, ads=ADS) == expected
    fields = {each["name"]: each for each in json.loads(merged({"plays": PLAYS, "ads": ADS}))["fields"]}
    nullable = {name for name, each in fields.items() if isinstance(each["type"], list)}
    assert nullable == {"user_id", "ts", "other", "ad"}


def test_an_event_of_each_topic_is_read_with_nulls_for_what_its_topic_lacks():
    reader = merged({"plays": PLAYS, "ads": ADS})
    decoder = FramedAvro(columns_of(reader), Schemas(s1=json.loads(PLAYS), s2=json.loads(ADS)), reader)
    device = {"os": "tv"}
    play = {"user_id": "ann", "ts": 0, "device": device, "other": device}
    row, reason = both_ways(decoder, framed(1, written(json.loads(PLAYS), play)))
    assert reason is None
    assert (row["user_id"], row["device"], row["other"], row["ad"]) == ("ann", device, device, None)
    row, reason = both_ways(decoder, framed(2, written(json.loads(ADS), {"user_id": None, "ad": 5, "device": device})))
    assert reason is None
    nothing = {"user_id": None, "ts": None, "other": None}
    assert row == {**nothing, "device": device, "ad": 5}


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (record("Ad", user_id="int"), "user_id has different types in the avro schemas: string and int"),
        (record("Ad", ts="long"), r"ts has different types .*: long \(timestamp-millis\) and long"),
        (record("Ad", User_ID="string"), "user_id and User_ID of the avro schemas differ in case only"),
        (record("music.Ad", more={**DEVICE, "fields": [{"name": "v", "type": "int"}]}), "define the type music.Device"),
        (record("Ad", device={**DEVICE, "fields": [{"name": "v", "type": "int"}]}), "device has different types"),
    ],
)
def test_what_cannot_be_one_record_is_told(other, says):
    with pytest.raises(ConfigError, match=says):
        merged({"plays": PLAYS, "ads": other})


def test_a_default_that_all_topics_have_stays_one():
    with_default = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int", "default": 3}]}
    (field,) = json.loads(merged({"a": json.dumps(with_default), "b": json.dumps(with_default)}))["fields"]
    assert field == {"name": "x", "type": "int", "default": 3}

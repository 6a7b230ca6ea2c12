"""From the configuration of a table to its decoder."""

import json

import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError
from enrich.codecs import decoder_for, schemas_of
from enrich.config import load_text
from tests.contract.codecs.decoders import NEWER, SCHEMA, Schemas, framed
from tests.property.codecs.avro_values import written

ROW = {"plan": "gold", "rps": 7}
COLUMNS = "plan string, rps int"


def table(registry=False, **section):
    kafka: dict[str, object] = {"bootstrap_servers": "localhost:9092"}
    if registry:
        kafka["registry"] = {"url": "http://ann:secret@localhost:8081", "username": "bob", "password": "pass word"}
    text = json.dumps({"name": "p", "kafka": kafka, "tables": {"t": {"topic": "t", **section}}})
    pipeline = load_text(text, {})
    return pipeline.tables["t"], pipeline.kafka.registry


@pytest.mark.parametrize(
    ("section", "value", "row"),
    [
        ({"format": "json", "columns": COLUMNS}, json.dumps(ROW).encode(), ROW),
        ({"format": "bytes"}, b"\xff", {"value": b"\xff"}),
        ({"format": "bytes", "columns": "image binary"}, b"\xff", {"image": b"\xff"}),
        ({"format": "string"}, b"a", {"value": "a"}),
        ({"format": "avro", "columns": COLUMNS, "schema": json.dumps(SCHEMA)}, written(SCHEMA, ROW), ROW),
        ({"format": "avro", "columns": COLUMNS, "registry": True}, framed(1, written(SCHEMA, ROW)), ROW),
        (
            {
                "format": "avro",
                "columns": COLUMNS,
                "registry": True,
                "schema": json.dumps(NEWER),
                "framing": "confluent",
            },
            framed(1, written(SCHEMA, ROW)),
            ROW,
        ),
    ],
)
def test_each_format_has_its_decoder(section, value, row):
    decoder = decoder_for(table(**section)[0], Schemas(s1=SCHEMA))
    decoded = decoder.decode(pa.array([value, None], pa.binary()))
    assert decoded.rows.to_pylist() == [row, None]
    assert decoded.bad == {}


def test_an_avro_file_is_read_into_the_table(tmp_path):
    (tmp_path / "plan.avsc").write_text(json.dumps(SCHEMA))
    section, _ = table(format="avro", columns=COLUMNS, file=str(tmp_path / "plan.avsc"))
    decoded = decoder_for(section).decode(pa.array([written(SCHEMA, ROW)], pa.binary()))
    assert decoded.rows.to_pylist() == [ROW]


def test_columns_that_the_format_cannot_fill_are_refused():
    section, _ = table(format="avro", columns="plan int", schema=json.dumps(SCHEMA))
    with pytest.raises(ConfigError, match="plan: avro's string cannot fill a column of type int32"):
        decoder_for(section)


def test_framing_without_a_registry_is_refused():
    section, _ = table(format="avro", columns=COLUMNS, registry=True)
    with pytest.raises(ConfigError, match="confluent framing needs a registry"):
        decoder_for(section, None)


def test_the_registry_is_that_of_the_configuration():
    assert schemas_of(None) is None
    assert schemas_of(table(format="json", columns=COLUMNS, registry=True)[1]) is not None

"""Schemas from a real registry."""

import http.client
import json
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from enrich.base.errors import BadRecord, ConfigError
from enrich.codecs import CachedSchemas, FramedAvro
from enrich.codecs.avro.schemas.registry import Registry, RegistryAccess
from enrich.dev import temporary_stack
from tests.contract.codecs.decoders import COLUMNS, NEWER, OLDER, SCHEMA, framed
from tests.property.codecs.avro_values import written


@pytest.fixture(scope="module")
def url():
    with temporary_stack(("registry",), quiet=True) as addresses:
        assert addresses.registry_url is not None
        yield addresses.registry_url


def register(url, subject, schema, **more):
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=120)
    body = json.dumps({"schema": json.dumps(schema), **more})
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    connection.request("POST", f"{address.path}/subjects/{subject}/versions", body, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status == 200, answer
    return answer["id"]


def decode(url, *values, schema=None):
    schemas = CachedSchemas(Registry(RegistryAccess(url)))
    decoder = FramedAvro(COLUMNS, schemas, schema and json.dumps(schema))
    return decoder.decode(pa.array(values, pa.binary()))


def test_records_are_read_by_the_schemas_that_wrote_them(url):
    first = register(url, "plans-value", SCHEMA)
    second = register(url, "older-value", OLDER)
    row = {"plan": "gold", "rps": 7}
    values = (
        framed(first, written(SCHEMA, row)),
        framed(second, written(OLDER, {"extra": b"", "level": "silver", "rps": 8})),
        framed(987654, b""),
        None,
    )
    decoded = decode(url, *values)
    assert decoded.rows.to_pylist() == [row, {"plan": None, "rps": 8}, None, None]
    assert list(decoded.bad) == [2]
    assert decoded.bad[2].startswith("schema id 987654 is not in the schema registry")
    decoded = decode(url, *values, schema=NEWER)
    assert decoded.rows.to_pylist() == [row, {"plan": "silver", "rps": 8}, None, None]


def test_types_of_other_schemas_are_found_by_reference(url):
    colour = {"type": "enum", "name": "Colour", "namespace": "com.example", "symbols": ["RED", "GREEN"]}
    register(url, "colour-value", colour)
    paint = {
        "type": "record",
        "name": "Paint",
        "namespace": "com.example",
        "fields": [{"name": "plan", "type": "Colour"}, {"name": "second", "type": "com.example.Colour"}],
    }
    references = [{"name": "com.example.Colour", "subject": "colour-value", "version": 1}]
    paint_id = register(url, "paint-value", paint, references=references)
    decoded = decode(url, framed(paint_id, b"\2\0"))
    assert decoded.rows.to_pylist() == [{"plan": "GREEN", "rps": None}]


def test_a_schema_that_is_no_avro_makes_its_records_bad(url):
    schema_id = register(url, "json-value", {"$schema": "http://json-schema.org/draft-07/schema#"}, schemaType="JSON")
    with pytest.raises(BadRecord, match="is of type JSON, not avro"):
        Registry(RegistryAccess(url)).get(schema_id)


def test_a_wrong_path_is_no_reason_to_quarantine_records(url):
    address = urlsplit(url)
    with pytest.raises(ConfigError, match=r"check kafka\.registry\.url"):
        Registry(RegistryAccess(f"http://{address.netloc}/nothing/here")).get(1)


def test_the_newest_schema_of_a_subject_is_what_a_source_writes_by(url):
    registry = Registry(RegistryAccess(url))
    register(url, "rows.v1-value", SCHEMA)
    newest = register(url, "rows.v1-value", {**SCHEMA, "doc": "newer"})
    schema_id, text = registry.latest("rows.v1-value")
    assert (schema_id, json.loads(text)["doc"]) == (newest, "newer")
    with pytest.raises(ConfigError, match=r"register a schema for nothing-value"):
        registry.latest("nothing-value")

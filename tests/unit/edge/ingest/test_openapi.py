"""The description of an address is OpenAPI 3.1 by the letter, and says what its entries take."""

import json
import re

import pytest

from edge_service.ingest.entry.openapi import description
from enrich.config import load_text

TOKEN = "a-token-that-nobody-else-has"  # noqa: S105 - of this test
PIPELINE = f"""
name: plays
kafka: {{bootstrap_servers: 'h:1'}}
tables:
  senders: {{topic: senders, format: json, columns: 'name string'}}
ingest:
  plays: {{path: /v1/plays, topic: hidden.topic, format: json, tokens: ['{TOKEN}'], max_body: 2MiB, max_events: 7}}
  ads: {{path: /v1/ads, topic: hidden.topic, format: json, tenants: senders, invalid: dlq}}
  texts: {{path: /texts, topic: hidden.topic, format: string}}
  raw: {{path: /raw, topic: hidden.topic, format: bytes}}
  plans: {{path: /plans, topic: hidden.topic, format: avro, schema: '{{"type": "record", "name": "P", "fields": []}}'}}
"""


@pytest.fixture(scope="module")
def document():
    pipeline = load_text(PIPELINE, {})
    return json.loads(description(pipeline.name, pipeline.ingest))


# Which keys each object of the specification has, must have, and what they hold.
WORDS = {"type", "description", "items", "properties", "required", "enum", "minimum", "format", "oneOf"}
WORDS |= {"minItems", "minLength", "maxLength"}
TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}


def fits(value, required, optional=()):
    assert isinstance(value, dict)
    assert set(required) <= set(value) <= {*required, *optional}, value.keys()


def check_schema(schema, document):
    if "$ref" in schema:
        fits(schema, ["$ref"])
        name = re.fullmatch(r"#/components/schemas/(\w+)", schema["$ref"])
        assert name is not None
        assert name[1] in document["components"]["schemas"]
        return
    fits(schema, [], WORDS)
    kinds = schema.get("type", [])
    assert {kinds} if isinstance(kinds, str) else set(kinds) <= TYPES
    assert "items" in schema or kinds != "array"
    assert set(schema.get("required", [])) <= set(schema.get("properties", {}))
    for part in [
        *schema.get("properties", {}).values(),
        *schema.get("oneOf", []),
        *filter(None, [schema.get("items")]),
    ]:
        check_schema(part, document)


def check_content(content, document):
    assert content
    for kind, media in content.items():
        assert re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", kind)
        fits(media, ["schema"])
        check_schema(media["schema"], document)


def check_operation(operation, document):
    fits(operation, ["operationId", "summary", "security", "parameters", "requestBody", "responses"])
    for requirement in operation["security"]:
        assert requirement == {"token": []}
    for parameter in operation["parameters"]:
        fits(parameter, ["name", "in", "schema"], ["description", "required"])
        assert parameter["in"] == "header"
        # By the specification a parameter of one of these names is ignored.
        assert parameter["name"].lower() not in ("accept", "content-type", "authorization")
        check_schema(parameter["schema"], document)
    fits(operation["requestBody"], ["content"], ["description", "required"])
    check_content(operation["requestBody"]["content"], document)
    for status, response in operation["responses"].items():
        assert re.fullmatch(r"[1-5]\d\d", status)
        fits(response, ["description"], ["content", "headers"])
        check_content(response["content"], document)
        for header in response.get("headers", {}).values():
            fits(header, ["schema"], ["description"])
            check_schema(header["schema"], document)


def test_it_is_openapi_by_the_letter(document):
    fits(document, ["openapi", "info", "paths", "components"])
    assert re.fullmatch(r"3\.1\.\d", document["openapi"])
    fits(document["info"], ["title", "version"], ["description"])
    fits(document["components"], ["schemas", "securitySchemes"])
    assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    for schema in document["components"]["schemas"].values():
        check_schema(schema, document)
    for path, item in document["paths"].items():
        assert path.startswith("/")
        fits(item, ["post"])
        check_operation(item["post"], document)
    names = [item["post"]["operationId"] for item in document["paths"].values()]
    assert len(set(names)) == len(names)


def test_it_says_what_each_entry_takes_and_answers(document):
    posts = {path: item["post"] for path, item in document["paths"].items()}
    kinds = {path: sorted(post["requestBody"]["content"]) for path, post in posts.items()}
    single = ["application/octet-stream", "text/plain"]
    assert kinds == {
        "/v1/plays": ["application/json", "application/x-ndjson"],
        "/v1/ads": ["application/json", "application/x-ndjson"],
        "/texts": single,
        "/raw": single,
        "/plans": ["application/avro", "application/octet-stream", "avro/binary"],
    }
    usual = {"200", "400", "408", "413", "415", "422", "429", "431", "503"}
    answers = {path: set(post["responses"]) for path, post in posts.items()}
    assert answers["/v1/plays"] == usual | {"401"}
    assert answers["/v1/ads"] == usual | {"401", "403"}
    assert answers["/raw"] == usual
    assert [path for path, post in posts.items() if post["security"]] == ["/v1/plays", "/v1/ads"]
    assert "2097152 bytes" in posts["/v1/plays"]["requestBody"]["description"]
    assert "7 events" in posts["/v1/plays"]["requestBody"]["description"]


def test_it_names_no_topic_and_no_token(document):
    text = json.dumps(document)
    assert "hidden" not in text
    assert TOKEN not in text

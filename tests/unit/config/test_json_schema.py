"""The JSON Schema for editors: accepts what the loader accepts, refuses misspelt keys and wrong values."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from enrich.config.json_schema import json_schema
from tests.unit.config.helpers import ABSENT, GOOD, LOOKUP, changed, told

SCHEMA = json_schema()
EXAMPLE = Path(__file__).parents[3] / "examples" / "plays.yaml"

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default", "format", "writeOnly"}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """The part of JSON Schema that ours uses; a keyword that is not known here is an error, not an accident."""
    for keyword, argument in schema.items():
        match keyword:
            case "$ref":
                good = fits(value, SCHEMA["$defs"][argument.removeprefix("#/$defs/")])
            case "type":
                good = isinstance(value, TYPES[argument]) and (argument == "boolean" or not isinstance(value, bool))
            case "anyOf":
                good = any(fits(value, option) for option in argument)
            case "enum":
                good = value in argument
            case "const":
                good = value == argument
            case "pattern":
                good = not isinstance(value, str) or re.search(argument, value) is not None
            case "minLength":
                good = not isinstance(value, str) or len(value) >= argument
            case "minimum":
                good = not isinstance(value, int) or value >= argument
            case "maximum":
                good = not isinstance(value, int) or value <= argument
            case "minItems":
                good = not isinstance(value, list) or len(value) >= argument
            case "uniqueItems":
                good = not isinstance(value, list) or len(value) == len(set(map(str, value)))
            case "items":
                good = not isinstance(value, list) or all(fits(item, argument) for item in value)
            case "propertyNames":
                good = not isinstance(value, dict) or all(fits(key, argument) for key in value)
            case "required":
                good = not isinstance(value, dict) or all(key in value for key in argument)
            case "properties":
                good = not isinstance(value, dict) or all(
                    fits(item, argument[key]) for key, item in value.items() if key in argument
                )
            case "patternProperties":
                good = not isinstance(value, dict) or all(
                    fits(item, inner) for key, item in value.items() for pattern, inner in argument.items()
                    if re.search(pattern, key)
                )  # fmt: skip
            case "additionalProperties":
                good = not isinstance(value, dict) or _others_fit(value, schema, argument)
            case _:
                assert keyword in ANNOTATIONS, keyword
                good = True
        if not good:
            return False
    return True


def _others_fit(value: dict[str, Any], schema: dict[str, Any], inner: bool | dict[str, Any]) -> bool:
    patterns = schema.get("patternProperties", {})
    others = [
        item
        for key, item in value.items()
        if key not in schema.get("properties", {}) and not any(re.search(pattern, key) for pattern in patterns)
    ]
    return not others if inner is False else inner is True or all(fits(item, inner) for item in others)


def test_the_example_fits() -> None:
    assert fits(YAML(typ="safe", pure=True).load(EXAMPLE.read_text()), SCHEMA)


ACCEPTED: list[tuple[str, Any]] = [
    ("name", "plays"),
    (f"{LOOKUP}.on_miss", None),
    (f"{LOOKUP}.on_miss", "default"),
    (f"{LOOKUP}.key", ["user_id", "ip"]),
    (f"{LOOKUP}.default", {"plan": 5, "x": [None]}),
    ("memory.max_readers", 8),
    ("memory.max_readers", "${READERS}"),
    ("memory.budget", "${BUDGET:-1GiB}"),
    ("tables.users.history", 0),
    ("tables.users.history", "30ms"),
    ("tables.users.access", "${ACCESS}"),
    ("stages.enrich.lineage", "${LINEAGE}"),
    ("kafka/client/linger.ms", 5),
    ("kafka.bootstrap_servers", ["a:1", "b:2"]),
    ("tables.a", {"topic": "a", "format": "string"}),
    ("tables.a", {"loader": {"file": "a.csv", "key": ["a"]}, "columns": "a int"}),
]


@pytest.mark.parametrize(("path", "value"), ACCEPTED)
def test_a_good_value_fits(path: str, value: Any) -> None:
    assert fits(changed((path, value)), SCHEMA)


REFUSED: list[tuple[str, Any]] = [
    ("nme", "plays"),
    ("name", ABSENT),
    ("name", "two words"),
    ("name", 5),
    ("kafka.bootstrap_server", "a:1"),
    ("kafka.bootstrap_servers", ABSENT),
    ("tables.users.histroy", "1h"),
    ("tables.users.history", "1x"),
    ("tables.users.history", 5),
    ("tables.users.format", "jsn"),
    ("tables.users.freshness.on_stale", "maybe"),
    ("tables.two words", GOOD["tables"]["users"]),
    ("memory.budget", 1024),
    ("memory.max_readers", 0),
    ("stages.enrich.sink.format", "avro"),
    ("stages.enrich.lineage", "yes"),
    (f"{LOOKUP}.as", ABSENT),
    (f"{LOOKUP}.select", ["plan", "plan"]),
    (f"{LOOKUP}.on_miss", "nul"),
    ("kafka/client/liger.ms", 5),
    ("kafka/client/acks", 1),
    ("sync.sources", {"s": {"topic": "t", "format": "json", "from": {"file": {"path": "f.csv", "kee": ["id"]}}}}),
]


@pytest.mark.parametrize(("path", "value"), REFUSED)
def test_a_misspelt_key_or_a_wrong_value_does_not_fit_and_the_loader_agrees(path: str, value: Any) -> None:
    assert not fits(changed((path, value)), SCHEMA)
    assert told(changed((path, value)))


def test_every_property_has_a_description() -> None:
    for name, section in [("the root", SCHEMA), *SCHEMA["$defs"].items()]:
        for key, value in section.get("properties", {}).items():
            assert value.get("description"), f"{name}: {key}"

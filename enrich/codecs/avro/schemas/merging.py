"""One reader schema for the events of several topics, each of which has a schema of its own."""

import json
from collections.abc import Mapping
from typing import Any, cast

from fastavro.schema import expand_schema

from enrich.base.avro import with_float_defaults
from enrich.base.errors import ConfigError
from enrich.codecs.avro.schemas.types import describe, load_schema

_NAMED = ("record", "error", "enum", "fixed")
_NO_TYPE = ("doc", "aliases", "order", "default", "namespace")
"""What two schemas of the same type may say differently."""


def merged(schemas: Mapping[str, str]) -> str:
    """A record with all fields of all records. Those that a topic lacks, or that may be null there, may be null.

    `schemas`: by topic, as text. Raises ConfigError for what is no schema of a record, and, naming both topics, for a
    field that they declare with different types.
    """
    for text in schemas.values():
        load_schema(text)
    raw = {topic: with_float_defaults(json.loads(text)) for topic, text in schemas.items()}
    records = {topic: cast(dict[str, Any], expand_schema(each)) for topic, each in raw.items()}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for topic, record in records.items():
        for field in record["fields"]:
            found.setdefault(field["name"].casefold(), {})[topic] = field
    fields = [_field(of_topics, is_everywhere=len(of_topics) == len(records)) for of_topics in found.values()]
    first, *others = (str(record["name"]) for record in records.values())
    # A reader's record takes those of its own name and of its aliases.
    whole = {"type": "record", "name": first, "aliases": sorted({*others} - {first}), "fields": fields}
    return json.dumps(_each_defined_once(whole, {}))


def _field(of_topics: Mapping[str, Any], *, is_everywhere: bool) -> dict[str, Any]:
    (first, known), *others = of_topics.items()
    for topic, field in others:
        where = f"topics {first} and {topic}"
        if field["name"] != known["name"]:
            what = f"the fields {known['name']} and {field['name']} of the avro schemas differ in case only"
            raise ConfigError(what, where=where, next_step="read these topics in stages of their own")
        if _plain(_without_null(field["type"])) != _plain(_without_null(known["type"])):
            kinds = " and ".join(_shown(each["type"]) for each in (known, field))
            raise ConfigError(
                f"the field {known['name']} has different types in the avro schemas: {kinds}",
                where=where,
                next_step="read these topics in stages of their own, or give the source one `schema` for all",
            )
    kind = _without_null(known["type"])
    if is_everywhere and all(_without_null(each["type"]) == each["type"] for each in of_topics.values()):
        same_default = all("default" in each and each["default"] == known.get("default") for each in of_topics.values())
        return {"name": known["name"], "type": kind, **({"default": known["default"]} if same_default else {})}
    branches = kind if isinstance(kind, list) else [kind]
    return {"name": known["name"], "type": ["null", *(each for each in branches if each != "null")], "default": None}


def _without_null(kind: Any) -> Any:
    if not isinstance(kind, list) or "null" not in kind:
        return kind
    others = [branch for branch in kind if branch != "null"]
    return others[0] if len(others) == 1 else others


def _plain(kind: Any) -> Any:
    """The type alone. Names count without their namespaces, as where a writer's type is read as a reader's."""
    if isinstance(kind, list):
        return [_plain(branch) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    if set(kind) == {"type"}:
        return _plain(kind["type"])
    parts = {key: value for key, value in kind.items() if key not in _NO_TYPE}
    if "name" in parts:
        parts["name"] = str(parts["name"]).rpartition(".")[2]
    if "fields" in parts:
        parts["fields"] = [{"name": each["name"], "type": _plain(each["type"])} for each in parts["fields"]]
    return {key: _plain(value) if key in ("type", "items", "values") else value for key, value in parts.items()}


def _shown(kind: Any) -> str:
    record = load_schema(json.dumps({"type": "record", "name": "it", "fields": [{"name": "it", "type": kind}]}))
    return describe(record.fields[0].type)


def _each_defined_once(kind: Any, defined: dict[str, Any]) -> Any:
    """Avro defines a name where it occurs first, and refers to it afterwards."""
    if isinstance(kind, list):
        return [_each_defined_once(branch, defined) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    if kind["type"] in _NAMED:
        name = kind["name"]
        if name in defined:
            if defined[name] != _plain(kind):
                what = f"the avro schemas of the topics define the type {name} differently"
                raise ConfigError(what, next_step="read these topics in stages of their own")
            return name
        defined[name] = _plain(kind)
    copy = dict(kind)
    if "fields" in copy:
        copy["fields"] = [{**each, "type": _each_defined_once(each["type"], defined)} for each in copy["fields"]]
    for key in ("items", "values"):
        if key in copy:
            copy[key] = _each_defined_once(copy[key], defined)
    return copy

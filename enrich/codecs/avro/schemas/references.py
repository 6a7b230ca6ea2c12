"""A schema that names types of other schemas, made whole: each type is put where it is first used."""

import json
from collections.abc import Callable
from typing import Any

# Real ones have a handful. Each is a question to the registry.
_MOST = 100

Fetch = Callable[[Any], tuple[str, list[Any]]]
"""From a reference to the text of its schema and the references of that."""

_NAMED = ("record", "error", "enum", "fixed")
_Known = dict[str, tuple[dict[str, Any], str]]


def inlined(text: str, references: list[Any], fetch: Fetch) -> str:
    """Raises ValueError for schemas that are none or lead to too many others, and what `fetch` raises."""
    if not references:
        return text
    try:
        known: _Known = {}
        for other in _all(references, fetch):
            _collect(json.loads(other), "", known)
        return json.dumps(_put_in(json.loads(text), "", known, set()))
    except (RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError("no avro schema") from None


def _all(references: list[Any], fetch: Fetch) -> list[str]:
    waiting = list(references)
    asked: list[Any] = []
    texts: list[str] = []
    while waiting:
        reference = waiting.pop()
        if reference in asked:
            continue
        asked.append(reference)
        if len(asked) > _MOST:
            raise ValueError(f"it leads to more than {_MOST} other schemas")
        text, further = fetch(reference)
        texts.append(text)
        waiting += further
    return texts


def _collect(schema: Any, namespace: str, known: _Known) -> None:
    """Every named type that is defined in the schema, with the namespace around it."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, known)
    elif isinstance(schema, dict):
        if schema["type"] in _NAMED:
            name = _full_name(schema, namespace)
            known.setdefault(name, (schema, namespace))
            namespace = name.rpartition(".")[0]
        for _, inner in _inside(schema):
            _collect(inner, namespace, known)


def _put_in(schema: Any, namespace: str, known: _Known, seen: set[str]) -> Any:
    if isinstance(schema, list):
        return [_put_in(branch, namespace, known, seen) for branch in schema]
    if isinstance(schema, str):
        name = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        if name in seen:
            return name
        if name not in known:
            return schema
        return _put_in(*known[name], known, seen)
    schema = dict(schema)
    if schema["type"] in _NAMED:
        name = _full_name(schema, namespace)
        if name in seen:
            return name
        seen.add(name)
        namespace, _, schema["name"] = name.rpartition(".")
        schema["namespace"] = namespace
        if "fields" in schema:
            schema["fields"] = [dict(field) for field in schema["fields"]]
    for place, inner in _inside(schema):
        place[1][place[0]] = _put_in(inner, namespace, known, seen)
    return schema


def _inside(schema: dict[str, Any]) -> list[tuple[tuple[str, dict[str, Any]], Any]]:
    """The types that stand directly inside a schema, and where: the key and what has it."""
    match schema["type"]:
        case "record" | "error":
            return [(("type", field), field["type"]) for field in schema["fields"]]
        case "array":
            return [(("items", schema), schema["items"])]
        case "map":
            return [(("values", schema), schema["values"])]
        case str():
            return []
    return [(("type", schema), schema["type"])]


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name: str = schema["name"]
    namespace = schema.get("namespace", namespace)
    return name if "." in name or not namespace else f"{namespace}.{name}"

"""Inlines types of referenced schemas into a schema: each type is defined where it is first used."""

import json
from collections.abc import Callable
from typing import Any

# Real schemas have a handful. Each reference is a request to the registry.
_MOST = 100

Fetch = Callable[[Any], tuple[str, list[Any]]]
"""Returns the text of a reference's schema, and that schema's own references."""

_NAMED = ("record", "error", "enum", "fixed")
_Known = dict[str, tuple[dict[str, Any], str]]


def inlined(text: str, references: list[Any], fetch: Fetch) -> str:
    """Raises ValueError for invalid schemas and for too many references, and what `fetch` raises."""
    if not references:
        return text
    try:
        known: _Known = {}
        for other in _all(references, fetch):
            _collect(json.loads(other), "", known)
        return json.dumps(_inline(json.loads(text), "", known, set()))
    except (RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError("not an avro schema") from None


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
            raise ValueError(f"it refers to more than {_MOST} other schemas")
        text, further = fetch(reference)
        texts.append(text)
        waiting += further
    return texts


def _collect(schema: Any, namespace: str, known: _Known) -> None:
    """Adds every named type that is defined in the schema, with its enclosing namespace."""
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


def _inline(schema: Any, namespace: str, known: _Known, seen: set[str]) -> Any:
    if isinstance(schema, list):
        return [_inline(branch, namespace, known, seen) for branch in schema]
    if isinstance(schema, str):
        name = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        if name in seen:
            return name
        if name not in known:
            return schema
        return _inline(*known[name], known, seen)
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
        place[1][place[0]] = _inline(inner, namespace, known, seen)
    return schema


def _inside(schema: dict[str, Any]) -> list[tuple[tuple[str, dict[str, Any]], Any]]:
    """The types directly inside a schema, each with the key and the dict where it is."""
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

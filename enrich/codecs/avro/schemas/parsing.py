"""Schemas as fastavro writes by them."""

from collections.abc import Mapping
from typing import Any

from enrich.base.avro import with_float_defaults


def parsed_to_write(schema: Any) -> tuple[Any, dict[str, Any]]:
    """The schema, and its named types by their full names. In JSON the defaults of bytes are texts, which fastavro
    refuses to write."""
    from fastavro import parse_schema  # not before a worker needs it

    names: dict[str, Any] = {}
    parsed: Any = parse_schema(with_float_defaults(schema), named_schemas=names)
    for record in (parsed, *names.values()):
        for field in record.get("fields", ()) if isinstance(record, dict) else ():
            if "default" in field:
                field["default"] = _as_value(field["type"], field["default"], names)
    return parsed, names


def of_defaults(field: Any, names: Mapping[str, Any]) -> Any:
    """A record of this field alone, which fastavro takes as it is: parsed again, it would look for the names of other
    types in the record's own namespace."""
    return {
        "type": "record",
        "name": "Defaults",
        "fields": [field],
        "__fastavro_parsed": True,
        "__named_schemas": dict(names),
    }


def _as_value(schema: Any, default: Any, names: Mapping[str, Any]) -> Any:
    """Each character of a text stands for a byte. What fits no type stays, and is refused when it is written."""
    if isinstance(schema, list):
        return _of_union(schema, default, names)
    schema = _resolved(schema, names)
    form = schema["type"]
    if isinstance(form, dict | list):
        return _as_value(form, default, names)
    match form, default:
        case "bytes" | "fixed", str() if max(map(ord, default), default=0) < 256:
            return default.encode("latin-1")
        case "array", list():
            return [_as_value(schema["items"], item, names) for item in default]
        case "map", dict():
            return {key: _as_value(schema["values"], item, names) for key, item in default.items()}
        case "record" | "error", dict():
            own = {field["name"]: field["type"] for field in schema["fields"]}
            return {key: _as_value(own[key], item, names) for key, item in default.items() if key in own}
    return default


_TAKE: Mapping[type, tuple[str, ...]] = {
    str: ("string", "enum", "bytes", "fixed"),
    list: ("array",),
    dict: ("record", "error", "map"),
}


def _of_union(branches: list[Any], default: Any, names: Mapping[str, Any]) -> Any:
    forms = [_resolved(branch, names)["type"] for branch in branches]
    for wanted in _TAKE.get(type(default), ()):
        if wanted in forms:
            return _as_value(branches[forms.index(wanted)], default, names)
    return default


def _resolved(schema: Any, names: Mapping[str, Any]) -> Any:
    return names.get(schema, {"type": schema}) if isinstance(schema, str) else schema

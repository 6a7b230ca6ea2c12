"""Avro schemas as JSON, before fastavro reads them: for the configuration, which checks them, and for the codecs."""

from contextlib import suppress
from typing import Any

_INNER = ("type", "items", "values", "fields")


def with_float_defaults(schema: Any) -> Any:
    """The schema with 0.0 for each default 0 of a float or a double. Avro takes a whole number for it, and fastavro
    refuses that where the type is an object: {"type": "double"}. What is no schema is left to fastavro."""
    if isinstance(schema, list):
        return [with_float_defaults(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: with_float_defaults(each) if name in _INNER else each for name, each in schema.items()}
    kind, default = made.get("type"), made.get("default")
    if isinstance(kind, dict) and kind.get("type") in ("float", "double") and type(default) is int:
        with suppress(OverflowError):
            made["default"] = float(default)
    return made

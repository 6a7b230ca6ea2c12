"""JSON Schema of the configuration file, for completion and checks in editors.

It covers keys, types and values; dependencies between keys are checked by `config check`.
"""

from typing import Any

from enrich.config.sections.pipeline import Pipeline
from enrich.config.shape import every_section, keys_of
from enrich.config.types.fields import Section

_VARIABLE = {"type": "string", "pattern": r"\$\{"}


def json_schema() -> dict[str, Any]:
    schema = Pipeline.model_json_schema()
    definitions = schema["$defs"]
    for section in every_section():
        _loosen(schema if section is Pipeline else definitions[section.__name__], section)
    for definition in definitions.values():
        if "enum" in definition:
            _allow_variable(definition)
    # In YAML, `on_miss: null` is not text.
    definitions["OnMiss"]["anyOf"].append({"type": "null"})
    result: dict[str, Any] = _quiet(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "enrich pipeline",
        **result,
    }


def _loosen(schema: dict[str, Any], section: type[Section]) -> None:
    """Derived keys are not required, and every value may be a `${VAR}`."""
    schema["required"] = [key for key in schema.get("required", ()) if key not in section.derived]
    for key, field in keys_of(section).items():
        value = schema["properties"][key]
        value["description"] = field.description  # pydantic omits it beside a reference
        for option in value.get("anyOf", [value]):
            _allow_variable(option)


def _allow_variable(schema: dict[str, Any]) -> None:
    restricted = {"pattern", "enum", "const"} & schema.keys() or schema.get("type") in ("integer", "boolean", "number")
    if restricted:
        moved = {key: schema.pop(key) for key in list(schema) if key not in ("description", "default", "title")}
        schema["anyOf"] = [moved, dict(_VARIABLE)]


def _quiet(schema: Any) -> Any:
    """Without pydantic's titles, which repeat the keys, and without null defaults."""
    if isinstance(schema, dict):
        return {
            key: _quiet(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
        }
    return [_quiet(item) for item in schema] if isinstance(schema, list) else schema

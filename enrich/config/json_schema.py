"""JSON Schema of the configuration file, for completion and checks in editors.

It knows keys, types and values; what must fit together is for `config check`.
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
    # YAML's `on_miss: null` is no text.
    definitions["OnMiss"]["anyOf"].append({"type": "null"})
    result: dict[str, Any] = _quiet(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "enrich pipeline",
        **result,
    }


def _loosen(schema: dict[str, Any], section: type[Section]) -> None:
    """Keys that follow from others are not required, and wherever a value stands, `${VAR}` may stand."""
    schema["required"] = [key for key in schema.get("required", ()) if key not in section.derived]
    for key, field in keys_of(section).items():
        value = schema["properties"][key]
        value["description"] = field.description  # pydantic leaves it out beside a reference
        for option in value.get("anyOf", [value]):
            _allow_variable(option)


def _allow_variable(schema: dict[str, Any]) -> None:
    restricted = {"pattern", "enum", "const"} & schema.keys() or schema.get("type") in ("integer", "boolean", "number")
    if restricted:
        moved = {key: schema.pop(key) for key in list(schema) if key not in ("description", "default", "title")}
        schema["anyOf"] = [moved, dict(_VARIABLE)]


def _quiet(schema: Any) -> Any:
    """Without pydantic's titles, which repeat the keys, and without defaults that say nothing."""
    if isinstance(schema, dict):
        return {
            key: _quiet(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
        }
    return [_quiet(item) for item in schema] if isinstance(schema, list) else schema

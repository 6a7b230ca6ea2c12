"""Navigates the models by path: the section at a path, its keys, and valid stand-ins for missing values."""

import ast
import inspect
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Any

from pydantic.fields import FieldInfo

from enrich.config.messages.problems import Path
from enrich.config.sections.pipeline import Pipeline
from enrich.config.types.fields import Section

_STAND_INS: Mapping[str, Any] = {
    "name": "stand-in",
    "bootstrap_servers": "stand-in:9092",
    "protocol": "PLAINTEXT",
    "Registry.url": "http://stand-in",
    "RedisTarget.url": "redis://stand-in",
    "HttpEndpoint.url": "http://stand-in",
    "HttpOrigin.url": "http://stand-in",
    "RedisOrigin.url": "redis://stand-in",
    "pattern": "stand-in",
    "cert_file": "/stand-in.pem",
    "key_file": "/stand-in.pem",
    "path": "/stand-in.csv",
    "format": "string",
    "SyncSource.format": "json",
    "columns": "value string",
    "value": "1 + 1",
    "table": "stand-in",
    "key": ["stand_in"],
    "Masks.key": "stand-in of a secret",
    "as": "stand_in",
    "checkpoint": "stand-in:checkpoint",
    "dsn": "postgresql://stand-in",
    "dlq": "stand-in.dlq",
}
"""Values for required keys that are missing or wrong, so that the rest can still be checked. Never shown to anyone."""


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """The keys of a section as the file spells them, each with its description."""
    for name, field in section.model_fields.items():
        if field.description is None:
            field.description = next(texts[name] for kind in section.__mro__ if name in (texts := _texts_of(kind)))
    return {field.alias or name: field for name, field in section.model_fields.items()}


@cache
def _texts_of(kind: type) -> dict[str, str]:
    """The texts below the attributes of a class, by name."""
    # pydantic can do this (use_attribute_docstrings), but at every import: 0.1 s of CPU time.
    (found,) = ast.parse(inspect.getsource(kind)).body
    return {
        attribute.target.id: " ".join(text.value.value.split())
        for attribute, text in pairwise(getattr(found, "body", ()))
        if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def section_at(path: Path) -> type[Section] | None:
    """The section at the path; None if there is none."""
    kind: Any = Pipeline
    for step in path:
        kind = _child(kind, step)
    return kind if _is_section(kind) else None


def stand_in(path: Path) -> Any:
    """A valid value for the path, or None if no value is required there."""
    section = section_at(path[:-1])
    if section is not None:
        field = keys_of(section).get(str(path[-1]))
        if field is None or not field.is_required():
            return None
        return _stand_in(section, str(path[-1]), field)
    whole = section_at(path)
    return None if whole is None else stand_in_section(whole)


def stand_in_section(section: type[Section]) -> dict[str, Any]:
    return {key: _stand_in(section, key, field) for key, field in keys_of(section).items() if field.is_required()}


def _stand_in(section: type[Section], key: str, field: FieldInfo) -> Any:
    kind = _plain(field.annotation)
    if _is_section(kind):
        return stand_in_section(kind)
    if key == "topic":
        return f"stand-in.{section.__name__}"
    return _STAND_INS.get(f"{section.__name__}.{key}", _STAND_INS.get(key))


def every_key(section: type[Section] = Pipeline, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """All keys with their fields, as the reference writes them: `tables.<name>.topic`, `kafka.client.linger.ms`."""
    for key, field in keys_of(section).items():
        path = prefix + key
        yield path, field
        kind, suffix = _plain(field.annotation), ""
        for step, part in (("", ".<name>"), (0, "[]")):
            inner = None if _is_section(kind) else _child(kind, step)
            if _is_section(inner):
                kind, suffix = inner, part
        if _is_section(kind):
            yield from every_key(kind, f"{path}{suffix}.")


def every_section(section: type[Section] = Pipeline) -> Iterator[type[Section]]:
    """Each section's model once, the root first."""
    seen = [section]
    for each in seen:
        yield each
        for field in each.model_fields.values():
            kind = _plain(field.annotation)
            inner = next((k for k in (kind, _child(kind, ""), _child(kind, 0)) if _is_section(k)), None)
            if inner is not None and inner not in seen:
                seen.append(inner)


def _child(kind: Any, step: str | int) -> Any:
    if _is_section(kind):
        field = keys_of(kind).get(str(step))
        return None if field is None else _plain(field.annotation)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and isinstance(step, int):
        return _plain(arguments[0])
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(step, str):
        return _plain(arguments[1])
    return None


def _plain(kind: Any) -> Any:
    """Without Annotated and `| None`."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _plain(typing.get_args(kind)[0])
    if origin in (typing.Union, UnionType):
        kinds = [inner for inner in typing.get_args(kind) if inner is not type(None)]
        return _plain(kinds[0]) if len(kinds) == 1 else kind
    return kind


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)

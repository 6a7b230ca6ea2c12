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

_STAND_INS: Mapping[tuple[str, str], Any] = {
    ("Pipeline", "name"): "stand-in",
    ("KafkaSection", "bootstrap_servers"): "stand-in:9092",
    ("Security", "protocol"): "PLAINTEXT",
    ("Registry", "url"): "http://stand-in",
    ("Snapshots", "path"): "/stand-in",
    ("Table", "format"): "string",
    ("Table", "columns"): "value string",
    ("Source", "format"): "string",
    ("Source", "topic"): "stand-in.source",
    ("Sink", "topic"): "stand-in.sink",
    ("Writeback", "topic"): "stand-in.writeback",
    ("Writeback", "value"): "1 + 1",
    ("Lookup", "table"): "stand-in",
    ("Lookup", "key"): "1 + 1",
    ("Lookup", "as"): "stand_in",
    ("Stage", "checkpoint"): "stand-in:checkpoint",
    ("SyncSource", "format"): "json",
    ("SyncSource", "topic"): "stand-in.source-rows",
    ("PostgresOrigin", "dsn"): "postgresql://stand-in",
    ("PostgresOrigin", "table"): "stand-in",
    ("PostgresOrigin", "key"): ["stand_in"],
    ("FileOrigin", "path"): "/stand-in.csv",
    ("FileOrigin", "key"): ["stand_in"],
    ("SyncWriteback", "format"): "string",
    ("SyncWriteback", "topic"): "stand-in.rows",
    ("SyncWriteback", "columns"): "value string",
    ("SyncWriteback", "dlq"): "stand-in.dlq",
    ("RedisTarget", "url"): "redis://stand-in",
    ("PostgresTarget", "dsn"): "postgresql://stand-in",
    ("PostgresTarget", "table"): "stand-in",
    ("PostgresTarget", "key"): ["stand_in"],
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
        if (section.__name__, str(path[-1])) in _STAND_INS:
            return _STAND_INS[section.__name__, str(path[-1])]
    whole = section_at(path)
    return None if whole is None else stand_in_section(whole)


def stand_in_section(section: type[Section]) -> dict[str, Any]:
    return {
        key: _STAND_INS[section.__name__, key]
        if (section.__name__, key) in _STAND_INS
        else stand_in_section(_plain(field.annotation))
        for key, field in keys_of(section).items()
        if field.is_required()
    }


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

"""Reads the fields of single JSON events with Python's parser: what Arrow's rejects, or cannot read."""

import json
import re
from collections.abc import Callable, Iterator
from decimal import InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from enrich.codecs.json.strict import build
from enrich.codecs.json.values import converter
from stores.protocol import Decoded

_Convert = Callable[[Any], Any]

_LONGEST_NUMBER = 4_000
"""Python parses no longer integers. No key is that long."""
_DEEPEST = 900
"""Levels of nested brackets. Python's own limit of about a thousand also counts the calling functions."""
_SPACE = re.compile(r"[ \t\r\n]*")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class OneByOne:
    """Raises ConfigError for a type that JSON cannot represent."""

    def __init__(self, fields: pa.Schema) -> None:
        self._kind = pa.struct(list(fields))
        self._converters = {field.name: _converter(field.type) for field in fields}

    def decode(self, values: pa.BinaryArray) -> Decoded:
        rows: list[dict[str, Any] | None] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values.to_pylist()):
            event = _object(value)
            if event is None:
                bad[index] = "not a JSON object"
                rows.append(None)
            else:
                rows.append({name: convert(event.get(name)) for name, convert in self._converters.items()})
        return build(rows, bad, self._kind)


class _Number(float):
    """A number with a point or exponent that keeps its text, so that decimals are exact."""

    def __new__(cls, text: str) -> "_Number":
        number = super().__new__(cls, text)
        number._text = text
        return number

    _text: str

    def __str__(self) -> str:
        return self._text


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= _LONGEST_NUMBER else None


def _refused(constant: str) -> None:
    raise ValueError(constant)


PARSER = json.JSONDecoder(parse_int=_whole, parse_float=_Number, parse_constant=_refused)


def members_of_one(event: str) -> Iterator[tuple[str, int, int]]:
    """The top-level members of a usable event: name, and where the value begins and ends."""
    place = _after_space(event, event.index("{") + 1)
    while event[place] != "}":
        name, place = PARSER.raw_decode(event, place)
        begin = _after_space(event, _after_space(event, place) + 1)  # behind the colon
        _, end = PARSER.raw_decode(event, begin)
        yield name, begin, end
        place = _after_space(event, end)
        if event[place] == ",":
            place = _after_space(event, place + 1)


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _object(value: bytes | None) -> dict[str, Any] | None:
    if not value or _is_too_deep(value):
        return None
    try:
        event = PARSER.decode(value.decode())
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _is_too_deep(value: bytes) -> bool:
    if value.count(b"[") + value.count(b"{") <= _DEEPEST:
        return False
    brackets = np.frombuffer(_STRINGS.sub(b"", value), np.uint8)
    opened = np.isin(brackets, np.frombuffer(b"[{", np.uint8)).astype(np.int64)
    closed = np.isin(brackets, np.frombuffer(b"]}", np.uint8))
    return bool(np.cumsum(opened - closed).max(initial=0) > _DEEPEST)


def _converter(kind: pa.DataType) -> _Convert:
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _list(_converter(kind.value_type))
    strict = converter(kind)
    if pa.types.is_map(kind):
        return _map(_converter(kind.item_type))

    def convert(value: Any) -> Any:
        try:
            return strict(value)
        except (ValueError, InvalidOperation):
            return None

    return convert


def _struct(kind: pa.StructType) -> _Convert:
    fields = [(field.name, _converter(field.type)) for field in kind]

    def convert(value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        return {name: convert_field(value.get(name)) for name, convert_field in fields}

    return convert


def _list(convert_item: _Convert) -> _Convert:
    def convert(value: Any) -> list[Any] | None:
        return [convert_item(item) for item in value] if isinstance(value, list) else None

    return convert


def _map(convert_item: _Convert) -> _Convert:
    def convert(value: Any) -> list[tuple[Any, Any]] | None:
        if not isinstance(value, dict):
            return None
        return [(_text(key), convert_item(item)) for key, item in value.items()]

    return convert


def _text(value: Any) -> str | None:
    """Text unchanged, anything else as JSON text."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # A lone surrogate, which JSON can express and UTF-8 cannot, becomes a question mark.
    return text if text.isascii() else text.encode(errors="replace").decode()

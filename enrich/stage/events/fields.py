"""The fields of JSON events that keys and expressions name, read in columns. Whoever joins the events, this decides
what is an event and what stands in its fields."""

import json
import re
from collections.abc import Callable
from decimal import InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from enrich.codecs import JsonDecoder
from enrich.codecs.json.strict import build
from enrich.codecs.json.values import converter
from enrich.stage.task.fate import Mask
from stores.protocol import Decoded

_Convert = Callable[[Any], Any]

_LONGEST_NUMBER = 4_000
"""Python takes no more digits; as a key there are none so long."""
_DEEPEST = 900
"""Brackets within brackets. Python's own bound, of about a thousand, counts the calls that led there, too."""
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class EventFields:
    """Fields of any types that columns have. One that is not there, or not of its type, is null and no reason to refuse
    the event; so is what stands in a list or object. Raises ConfigError for a type that no JSON stands for."""

    def __init__(self, fields: pa.Schema) -> None:
        fields = pa.schema([pa.field(field.name, _all_nullable(field.type)) for field in fields])
        self._decoder = JsonDecoder(fields, _OneByOne(fields))

    @staticmethod
    def can_read_alone(kind: pa.DataType) -> bool:
        """Whether a key can be such a field as it is."""
        return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))

    def read(self, values: pa.BinaryArray) -> tuple[Mask, pa.StructArray]:
        """Which of the events can be used, that is are one JSON object in UTF-8, and the fields of those."""
        decoded = self._decoder.decode(values)
        usable = np.ones(len(values), np.bool_)
        usable[list(decoded.bad)] = False
        return usable, decoded.rows


class _OneByOne:
    """For events that Arrow's parser does not take, by Python's own."""

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


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    """What NOT NULL promises inside of a field, an event may not keep."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _all_nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_all_nullable(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _all_nullable(kind.item_type))
    return kind


class _Number(float):
    """A number with a point or exponent, which knows how it was written: decimals take it exactly."""

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


_PARSER = json.JSONDecoder(parse_int=_whole, parse_float=_Number, parse_constant=_refused)


def _object(value: bytes | None) -> dict[str, Any] | None:
    if not value or _is_too_deep(value):
        return None
    try:
        event = _PARSER.decode(value.decode())
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
    """Text as it is, anything else as JSON has it."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # Half of a character, which JSON can name and UTF-8 cannot.
    return text if text.isascii() else text.encode(errors="replace").decode()

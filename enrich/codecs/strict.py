"""Plain Python values (as JSON has them) to what Arrow takes for a type, refusing instead of guessing."""

import base64
import binascii
import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import pyarrow as pa

from enrich.errors import ConfigError

_Convert = Callable[[Any], Any]
_Parsed = TypeVar("_Parsed")


class _UnfitError(ValueError):
    """A value that a column cannot hold, and the path to it from the outermost value."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path)}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


def converter(kind: pa.DataType) -> _Convert:
    """A function from a value to what Arrow takes for this type; null stays null. It raises ValueError, with the
    path of the field, for a value of another type. Raises ConfigError for a type that no JSON value stands for."""
    convert = _converter(kind)
    return lambda value: None if value is None else convert(value)


def _converter(kind: pa.DataType) -> _Convert:
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _list(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_integer(kind):
        return _integer(kind)
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    for matches, convert in _SCALARS:
        if matches(kind):
            return convert
    raise ConfigError(f"a column of type {kind} cannot be read from JSON")


def _struct(kind: pa.StructType) -> _Convert:
    fields = [(field.name, converter(field.type)) for field in kind]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong("an object", value)
        return {name: _inside(name, convert_field, value.get(name)) for name, convert_field in fields}

    return convert


def _list(kind: pa.ListType) -> _Convert:
    convert_item = converter(kind.value_type)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _wrong("an array", value)
        return [_inside(str(index), convert_item, item) for index, item in enumerate(value)]

    return convert


def _map(kind: pa.MapType) -> _Convert:
    if not pa.types.is_string(kind.key_type):
        raise ConfigError(f"a column of type {kind} cannot be read from JSON, whose maps have text keys")
    convert_item = converter(kind.item_type)

    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _wrong("an object", value)
        return [(key, _inside(key, convert_item, item)) for key, item in value.items()]

    return convert


def _integer(kind: pa.DataType) -> _Convert:
    lowest, highest = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1

    def convert(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong("a whole number", value)
        if not lowest <= value <= highest:
            raise _UnfitError(f"a whole number of {kind.bit_width} bits cannot hold the value")
        return value

    return convert


def _decimal(kind: pa.Decimal128Type) -> _Convert:
    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise _wrong("a decimal number", value)
        try:
            number = Decimal(str(value))
            fits = number.is_finite() and number == round(number, kind.scale)
        except InvalidOperation:
            raise _wrong("a decimal number", value) from None
        if not fits or abs(number) >= Decimal(10) ** (kind.precision - kind.scale):
            raise _UnfitError(f"decimal({kind.precision},{kind.scale}) cannot hold the value")
        return number

    return convert


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("text", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _UnfitError("text with half a surrogate pair") from None
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong("true or false", value)
    return value


def _floating(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _UnfitError("a number too large for its column")
    return number


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except binascii.Error:
        raise _UnfitError("expected base64 text") from None


def _timestamp(value: Any) -> datetime:
    return _parsed("an ISO 8601 time", datetime.fromisoformat, value)


def _date(value: Any) -> date:
    return _parsed("an ISO 8601 date", date.fromisoformat, value)


def _parsed(expected: str, parse: Callable[[str], _Parsed], value: Any) -> _Parsed:
    text = _text(value)
    try:
        return parse(text)
    except ValueError:
        raise _UnfitError(f"expected {expected}, got other text") from None


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], _Convert], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_large_string, _text),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _floating),
    (pa.types.is_binary, _bytes),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
)


def _inside(name: str, convert: _Convert, value: Any) -> Any:
    try:
        return convert(value)
    except _UnfitError as error:
        raise _UnfitError(error.reason, (name, *error.path)) from None


def _wrong(expected: str, value: Any) -> _UnfitError:
    # The type only: a reason ends in logs and headers, which must not hold payloads.
    return _UnfitError(f"expected {expected}, got {_JSON_NAMES.get(type(value), type(value).__name__)}")


_JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}

"""The fields of JSON events that look-ups ask for, read in columns."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from enrich.codecs import JsonDecoder
from enrich.stage.policies import Mask
from stores.protocol import Decoded

_Convert = Callable[[Any], Any]

_LONGEST_NUMBER = 4_000
"""Python takes no more digits; as a key there are none so long."""


class EventFields:
    """Fields of text and whole numbers. One that is not there, or not of its type, is null and no reason to refuse the
    event."""

    def __init__(self, fields: pa.Schema) -> None:
        fields = pa.schema([field.with_nullable(True) for field in fields])
        self._decoder = JsonDecoder(fields, _OneByOne(fields))

    @staticmethod
    def can_read(kind: pa.DataType) -> bool:
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
        return Decoded(pa.array(rows, self._kind), bad)


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= _LONGEST_NUMBER else None


def _refused(constant: str) -> None:
    raise ValueError(constant)


_PARSER = json.JSONDecoder(parse_int=_whole, parse_constant=_refused)


def _object(value: bytes | None) -> dict[str, Any] | None:
    if not value:
        return None
    try:
        event = _PARSER.decode(value.decode())
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _converter(kind: pa.DataType) -> _Convert:
    if pa.types.is_string(kind):
        return _text
    least, largest = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1

    def integer(value: Any) -> int | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= largest
        return value if fits else None

    return integer


def _text(value: Any) -> str | None:
    """Text as it is, anything else as JSON has it: as Spark reads a field of text."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    # Half of a character, which JSON can name and UTF-8 cannot.
    return text if text.isascii() else text.encode(errors="replace").decode()

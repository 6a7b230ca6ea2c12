"""Decodes JSON values one at a time with Python's parser: it decides about doubtful values, and gives the reason."""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from enrich.codecs.json.values import converter
from stores.json_text import has_decimal
from stores.protocol import Decoded

# Larger than any column holds, and short enough for Python to convert it to decimal digits.
_HUGE = 10**4000


class StrictJson:
    """Raises ConfigError for a column that JSON cannot fill."""

    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind
        self._convert = converter(kind)
        # JSON numbers are exact decimal text; only a decimal column needs more than the nearest float.
        parse_float = _exact if has_decimal(kind) else None
        self._parse = json.JSONDecoder(parse_float=parse_float).decode
        self._parse_long = json.JSONDecoder(parse_float=parse_float, parse_int=_bounded).decode

    def decode(self, values: pa.BinaryArray) -> Decoded:
        rows: list[Any] = []
        bad: dict[int, str] = {}
        for index, value in enumerate(values.to_pylist()):
            row = None
            if value is not None:
                try:
                    row = self._convert(self._object(value))
                except UnicodeError:  # its message would quote the byte
                    bad[index] = "not UTF-8 text"
                except ValueError as error:  # JSON's errors are ValueErrors too
                    bad[index] = str(error)
            rows.append(row)
        return build(rows, bad, self._kind)

    def _object(self, value: bytes) -> dict[str, Any]:
        try:
            parsed = self._parsed(value)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(parsed, dict):
            raise ValueError(f"expected a JSON object, got {type(parsed).__name__}")
        return parsed

    def _parsed(self, value: bytes) -> Any:
        # Like json.loads for bytes, which would create a new decoder for each value.
        text = value.decode(json.detect_encoding(value), "surrogatepass")
        try:
            return self._parse(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # Python refuses to read whole numbers of more than 4,300 digits
            return self._parse_long(text)


def build(rows: list[Any], bad: dict[int, str], kind: pa.StructType) -> Decoded:
    """Converted rows as an array. What fits Python's type but not Arrow's (the year 1600 in nanoseconds) is bad."""
    try:
        return Decoded(pa.array(rows, kind), bad)
    except (pa.ArrowException, ValueError, OverflowError):
        for index, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except (pa.ArrowException, ValueError, OverflowError):
                rows[index] = None
                bad[index] = "a value that its column cannot hold"
    return Decoded(pa.array(rows, kind), bad)


def _exact(text: str) -> Decimal | float:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        return float(text)


def _bounded(text: str) -> int:
    return int(text) if len(text) < 4000 else (-_HUGE if text.startswith("-") else _HUGE)

"""Converts single JSON values to what Arrow accepts for a simple type. They are never called with null."""

import base64
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeVar

import pyarrow as pa

from enrich.codecs.unfit import Unfit, wrong

Convert = Callable[[Any], Any]
_Parsed = TypeVar("_Parsed")

# As Arrow reads it. Python's Decimal also accepts underscores, spaces and digits of other scripts.
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Python's default precision is 28 digits, fewer than decimal(38,s).
WIDE = Context(prec=160)


def integer(kind: pa.DataType) -> Convert:
    bits = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def convert(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong("a whole number", value)
        if not lowest <= value <= highest:
            raise Unfit(f"a whole number of {bits} bits cannot hold the value")
        return value

    return convert


def decimal(kind: pa.Decimal128Type) -> Convert:
    step = Decimal(1).scaleb(-kind.scale, WIDE)
    bound = Decimal(1).scaleb(kind.precision - kind.scale, WIDE)

    def convert(value: Any) -> Decimal:
        number = _as_decimal(value)
        # The order matters: rounding a number beyond the bound could take more digits than there are.
        if number is None or number.copy_abs() >= bound or number != (rounded := number.quantize(step, context=WIDE)):
            raise Unfit(f"decimal({kind.precision},{kind.scale}) cannot hold the value")
        return rounded

    return convert


def _as_decimal(value: Any) -> Decimal | None:
    """None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise wrong("a decimal number", value)
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            if value.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
                return None
            raise wrong("a decimal number", value)
        try:
            number = Decimal(value)
        except InvalidOperation:  # an exponent of twenty digits
            return None
    else:
        number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() else None


def floating(kind: pa.DataType) -> Convert:
    # Numbers from here on round to infinity: the largest value plus half of its last binary digit.
    bound = {16: (2 - 2.0**-11) * 2.0**15, 32: (2 - 2.0**-24) * 2.0**127, 64: math.inf}[kind.bit_width]

    def convert(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise wrong("a number", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not abs(number) < bound:
            raise Unfit("a number too large for its column")
        return number + 0.0  # turns -0.0 into 0.0: JSON has one zero

    return convert


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong("text", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unfit("text with half a surrogate pair") from None
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong("true or false", value)
    return value


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(text(value), validate=True)
    except ValueError as error:
        if isinstance(error, Unfit):
            raise
        raise Unfit("expected base64 text") from None


def _timestamp(value: Any) -> datetime:
    time = _parsed("an ISO 8601 time", datetime.fromisoformat, value)
    try:
        return time if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        raise Unfit("a time outside the years 1 to 9999") from None


def _date(value: Any) -> date:
    return _parsed("an ISO 8601 date", date.fromisoformat, value)


def _parsed(expected: str, parse: Callable[[str], _Parsed], value: Any) -> _Parsed:
    written = text(value)
    try:
        return parse(written)
    except ValueError:
        raise Unfit(f"expected {expected}, got other text") from None


SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Convert], ...] = (
    (pa.types.is_string, text),
    (pa.types.is_large_string, text),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_binary, _bytes),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
)

"""Numbers read from text by Java's grammars: plain numbers in columns, odd ones one by one."""

import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.compute.kernels.decimals import fitted
from enrich.stage.compute.kernels.values import Kernel, on_columns
from enrich.stage.compute.nodes import Call

_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's `trim` takes away."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(r"([+-]?)0[xX](?:([0-9a-fA-F]+)\.?|([0-9a-fA-F]*)\.([0-9a-fA-F]+))[pP]([+-]?[0-9]+)")
_NAMES = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
    "nan": math.nan,
}
_PLAIN_FLOATING = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,9})?$"
_PLAIN_DECIMAL = r"^[+-]?[0-9]{1,30}(?:\.[0-9]{1,38})?$"
_WIDE = pa.decimal256(76, 38)
_MOST_DIGITS, _LARGEST_EXPONENT = 38, 2**31 - 1
_BITS_OF_SINGLE, _BITS_OF_DOUBLE = 50, 1200
"""Longer mantissas are cut, with a last bit for what is cut off."""
_MOST_BITS, _MOST_EXPONENT = 20_000, 12
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")


def _floating(call: Call, values: list[pa.Array]) -> pa.Array:
    is_single = call.kind.bit_width == 32
    return _read(values[0], _PLAIN_FLOATING, call.kind, lambda text: _floating_of(text, is_single=is_single))


def _read(column: pa.Array, plain: str, kind: pa.DataType, read_one: Callable[[str], Any]) -> pa.Array:
    is_plain = pc.match_substring_regex(column, plain)
    if pc.all(is_plain).as_py() is not False:
        return column.cast(kind)
    is_odd = pc.coalesce(pc.invert(is_plain), pa.scalar(False))
    read = pc.if_else(is_odd, pa.scalar(None, pa.string()), column).cast(kind)
    odd = [read_one(text) for text in column.filter(is_odd).to_pylist()]
    return pc.replace_with_mask(read, is_odd, pa.array(odd, kind))


def _floating_of(text: str, *, is_single: bool) -> float | None:
    text = text.strip(_TRIMMED)
    number = text[:-1] if text[-1:] in tuple("fFdD") else text
    if _NUMBER.fullmatch(number):
        return _single(number) if is_single else float(number)
    match = _HEX.fullmatch(number)
    if match:
        return _hexadecimal(match, is_single=is_single)
    if text in {"+NaN", "-NaN"}:
        return math.nan
    return _NAMES.get(text.lower()) if text.isascii() else None


def _single(number: str) -> float:
    """Rounded once: by way of the nearest double some numbers would be rounded twice."""
    nearest, exact = float(number), Decimal(number)
    if not math.isfinite(nearest) or Decimal(nearest) == exact:
        return _to_single(nearest)
    lower = nearest if abs(Decimal(nearest)) < abs(exact) else math.nextafter(nearest, 0)
    # The last bit stands for all digits that were cut off: no such number lies in the middle of two single ones.
    bits = struct.unpack("<q", struct.pack("<d", lower))[0] | 1
    return _to_single(struct.unpack("<d", struct.pack("<q", bits))[0])


def _to_single(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _hexadecimal(match: re.Match[str], *, is_single: bool) -> float:
    sign, whole, before, after, exponent = match.groups()
    mantissa = int(whole or f"{before}{after}", 16)
    power = max(-_MOST_BITS, min(_MOST_BITS, int(exponent[:_MOST_EXPONENT]))) - 4 * len(after or "")
    extra = max(0, mantissa.bit_length() - (_BITS_OF_SINGLE if is_single else _BITS_OF_DOUBLE))
    mantissa = (mantissa >> extra) | bool(mantissa & ((1 << extra) - 1))
    try:
        number = float(Fraction(mantissa) * Fraction(2) ** (power + extra)) if mantissa else 0.0
    except OverflowError:
        number = math.inf
    number = _to_single(number) if is_single else number
    return -number if sign == "-" else number


def _decimal(call: Call, values: list[pa.Array]) -> pa.Array:
    kind, column = call.kind, values[0]
    is_plain = pc.match_substring_regex(column, _PLAIN_DECIMAL)
    if pc.all(is_plain).as_py() is not False:
        return fitted(column.cast(_WIDE), kind)
    is_odd = pc.coalesce(pc.invert(is_plain), pa.scalar(False))
    read = fitted(pc.if_else(is_odd, pa.scalar(None, pa.string()), column).cast(_WIDE), kind)
    odd = [_decimal_of(text, kind) for text in column.filter(is_odd).to_pylist()]
    return pc.replace_with_mask(read, is_odd, pa.array(odd, kind))


def _decimal_of(text: str, kind: pa.Decimal128Type) -> Decimal | None:
    match = _DECIMAL.fullmatch(text.strip(_TRIMMED))
    if match is None or abs(int(match[1] or 0)) > _LARGEST_EXPONENT:
        return None
    number = Decimal(match[0])
    _, digits, exponent = number.as_tuple()
    if len(digits) + int(exponent) > _MOST_DIGITS:
        return None
    rounded = number.quantize(Decimal((0, (1,), -kind.scale)), ROUND_HALF_UP, Context(prec=_MOST_DIGITS * 2))
    return rounded if rounded.adjusted() < kind.precision - kind.scale or not rounded else None


READING: Mapping[str, Kernel] = {
    "floating_of_text": on_columns(_floating),
    "decimal_of_text": on_columns(_decimal),
}

"""Decimals in files. Arrow must not read those far below zero: see `tiny_exponents`."""

import json
import re
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores.json_text import has_decimal, tiny_exponents

_PLAIN = r"^[+-]?[0-9]{1,37}(\.[0-9]{1,38})?$"
_WIDE = pa.decimal256(76, 38)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_TINY = re.compile(r"[^eE]*[eE]-0*[1-9]\d+", re.ASCII)
_DIGITS = Context(prec=160)
_PIECE = 4 << 20
_NO_FIT = "conversion error: a number does not fit its column"


def decimals_of(texts: pa.StringArray, kind: pa.Decimal128Type) -> pa.Array:
    """As Arrow reads them in CSV. Raises ArrowInvalid for what does not fit."""
    texts = pc.ascii_trim_whitespace(texts)
    plain = pc.match_substring_regex(texts, _PLAIN)
    try:
        read = pc.if_else(plain, texts, pa.scalar(None, pa.string())).cast(_WIDE).cast(kind)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid(_NO_FIT) from None
    if pc.all(plain).as_py() is not False:
        return read
    is_odd = pc.invert(plain).fill_null(False)
    return pc.replace_with_mask(read, is_odd, pa.array([_decimal(text, kind) for text in texts.filter(is_odd)], kind))


def _decimal(text: pa.StringScalar, kind: pa.Decimal128Type) -> Decimal:
    try:
        number = Decimal(text.as_py()) if _NUMBER.fullmatch(text.as_py()) else None
        if number is not None and number.copy_abs() < Decimal(1).scaleb(kind.precision - kind.scale):
            rounded = number.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
            if rounded == number:
                return rounded
    except InvalidOperation:  # an exponent of twenty digits
        pass
    raise pa.ArrowInvalid(_NO_FIT)


def has_tiny_decimal(path: Path, columns: pa.Schema) -> bool:
    """Whether a file of JSON, one object a line, has such a number in one of the columns, or a line that may."""
    names = [field.name for field in columns if has_decimal(field.type)]
    if not names:
        return False
    with path.open("rb") as file:
        while data := file.read(_PIECE):
            data += file.readline()
            for place in tiny_exponents(np.frombuffer(data, np.uint8)).tolist():
                end = data.find(b"\n", place)
                if _has_tiny(data[data.rfind(b"\n", 0, place) + 1 : len(data) if end < 0 else end], names):
                    return True
    return False


def _has_tiny(line: bytes, names: list[str]) -> bool:
    try:
        row = json.loads(line, parse_float=str)
    except (ValueError, RecursionError):
        return True
    return not isinstance(row, dict) or any(_is_tiny(row.get(name)) for name in names)


def _is_tiny(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_tiny, value.values()))
    if isinstance(value, list):
        return any(map(_is_tiny, value))
    return isinstance(value, str) and _TINY.fullmatch(value) is not None

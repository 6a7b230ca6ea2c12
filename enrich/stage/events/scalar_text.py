"""Simple values as JSON text, in columns: the bytes that Spark's `to_json` writes. docs/formats.md has the forms."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.rows import extents

ToText = Callable[[pa.Array], pa.Array]

_ESCAPES = {
    **{bytes([code]): f"\\u{code:04X}".encode() for code in range(32)},
    b"\b": b"\\b",
    b"\t": b"\\t",
    b"\n": b"\\n",
    b"\f": b"\\f",
    b"\r": b"\\r",
    b'"': b'\\"',
    b"\\": b"\\\\",
}
_SMALL, _LARGE = 1e-3, 1e7
"""Between them Java writes a floating-point number without an exponent."""
_FIRST_COUNTED = -6


def quoted(values: pa.Array) -> pa.BinaryArray:
    """Text as a JSON string. Only what JSON requires is escaped."""
    values = values.cast(pa.binary())
    content, starts, ends = extents(values)
    if not len(values):
        return values
    begin = int(starts[0])
    window = content[begin : int(ends[-1])]
    odd = np.flatnonzero((window < ord(" ")) | (window == ord('"')) | (window == ord("\\")))
    if len(odd):
        has_some = np.zeros(len(values), np.bool_)
        has_some[np.searchsorted(starts, begin + odd, "right") - 1] = True
        escaped = _escaped(values.filter(pa.array(has_some)), np.unique(window[odd]))
        values = pc.replace_with_mask(values, pa.array(has_some), escaped)
    return _between(b'"', values)


def _escaped(values: pa.BinaryArray, odd: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    # The backslash first: the other escapes begin with one.
    for code in sorted(odd.tolist(), key=lambda code: code != ord("\\")):
        mark = bytes([code])
        values = pc.replace_substring(values, mark, _ESCAPES[mark])
    return values


def base64_text(values: pa.BinaryArray) -> pa.Array:
    return _between(b'"', pl.Series("", values).bin.encode("base64").to_arrow().cast(pa.binary()))


def date_text(values: pa.Date32Array) -> pa.Array:
    return _between(b'"', _with_long_years(values.cast(pa.string())).cast(pa.binary()))


def time_text(values: pa.TimestampArray) -> pa.Array:
    """In UTC, with six digits of a second."""
    # Without a zone, which is UTC: Arrow takes 40 times as long to write a time with one (measured).
    texts = _with_long_years(values.cast(pa.timestamp("us")).cast(pa.string()))
    iso = pc.replace_substring(texts, " ", "T").cast(pa.binary())
    return pc.binary_join_element_wise(b'"', iso, b'Z"', b"")


def _with_long_years(texts: pa.StringArray) -> pa.StringArray:
    """Years beyond 9999 have a sign, as ISO 8601 has it."""
    is_long = pc.match_substring_regex(texts, "^[0-9]{5}")
    if not pc.any(is_long).as_py():
        return texts
    return pc.if_else(is_long, pc.binary_join_element_wise("+", texts, ""), texts)


def plain_text(values: pa.Array) -> pa.Array:
    """Whole numbers, booleans, and decimals, which Arrow writes as Java does: `0E-10`, `1.50`."""
    return values.cast(pa.string()).cast(pa.binary())


def floating_text(values: pa.FloatingPointArray) -> pa.Array:
    """The shortest digits that are read as the same number, in Java's form: `1.0`, `1.0E7`, `-0.0`, `"NaN"`."""
    numbers = values.to_numpy(zero_copy_only=False)
    size = np.abs(numbers)
    texts = values.cast(pa.string())
    with np.errstate(invalid="ignore"):  # some NaN are errors to the processor
        is_whole = np.equal(numbers, np.trunc(numbers))
    plain = _with_point(texts, is_whole)
    has_exponent = ~((size == 0) | ((size >= _SMALL) & (size < _LARGE))) & _are_valid(values)
    if has_exponent.any():
        chosen = pa.array(has_exponent)
        plain = pc.replace_with_mask(plain, chosen, _scientific(texts.filter(chosen), size[has_exponent]))
    return plain.cast(pa.binary())


def _with_point(texts: pa.StringArray, is_whole: npt.NDArray[np.bool_]) -> pa.StringArray:
    return pc.if_else(pa.array(is_whole), pc.binary_join_element_wise(texts, ".0", ""), texts)


def _scientific(texts: pa.StringArray, size: npt.NDArray[np.floating]) -> pa.StringArray:
    """Arrow writes exponents below 1e-6 and from 1e10 on; the others are counted here."""
    counted = (size >= size.dtype.type(1e-6)) & (size < size.dtype.type(1e10))
    written = pc.replace_substring_regex(pc.replace_substring_regex(texts, r"^(-?\d)e", r"\1.0e"), r"e\+?", "E")
    if counted.any():
        chosen = pa.array(counted)
        written = pc.replace_with_mask(written, chosen, _with_exponent(texts.filter(chosen), size[counted]))
    if not np.isfinite(size).all():
        for arrows, javas in (("nan", '"NaN"'), ("-inf", '"-Infinity"'), ("inf", '"Infinity"')):
            written = pc.if_else(pc.equal(texts, arrows), javas, written)
    return written


def _with_exponent(texts: pa.StringArray, size: npt.NDArray[np.floating]) -> pa.StringArray:
    thresholds = np.array([float(f"1e{exponent}") for exponent in range(_FIRST_COUNTED, 10)], size.dtype)
    exponents = np.searchsorted(thresholds, size, "right") - 1 + _FIRST_COUNTED
    digits = pc.replace_substring_regex(texts, r"^(-?)[0.]*(\d)(\d*)\.?(\d*)$", r"\1\2.\3\4")
    digits = pc.replace_substring_regex(pc.utf8_rtrim(digits, "0"), r"\.$", ".0")
    return pc.binary_join_element_wise(digits, pa.array(exponents).cast(pa.string()), "E")


def _are_valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _between(mark: bytes, values: pa.Array) -> pa.BinaryArray:
    scalar = pa.scalar(mark, pa.binary())
    return pc.binary_join_element_wise(scalar, values, scalar, pa.scalar(b"", pa.binary()))


SCALARS: tuple[tuple[Callable[[pa.DataType], bool], ToText], ...] = (
    (pa.types.is_string, quoted),
    (pa.types.is_integer, plain_text),
    (pa.types.is_boolean, plain_text),
    (pa.types.is_floating, floating_text),
    (pa.types.is_timestamp, time_text),
    (pa.types.is_date, date_text),
    (pa.types.is_decimal, plain_text),
    (pa.types.is_binary, base64_text),
)
"""How a value of a simple type is written. Null stays null."""


def _plain_key(keys: pa.Array) -> pa.BinaryArray:
    return _between(b'"', plain_text(keys))


KEYS: tuple[tuple[Callable[[pa.DataType], bool], ToText], ...] = (
    (pa.types.is_string, quoted),
    (pa.types.is_date, lambda keys: _plain_key(keys.cast(pa.int32()))),
    (pa.types.is_timestamp, lambda keys: _plain_key(keys.cast(pa.int64()))),
    (pa.types.is_floating, lambda keys: _between(b'"', pc.replace_substring(floating_text(keys), b'"', b""))),
    (pa.types.is_integer, _plain_key),
    (pa.types.is_boolean, _plain_key),
    (pa.types.is_decimal, _plain_key),
)
"""How the key of a map is written: a date as days since 1970 and a time as microseconds, as Spark does."""

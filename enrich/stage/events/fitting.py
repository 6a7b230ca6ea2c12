"""Which JSON texts are of use for a type, as far as a batch shows it at a glance. A parser has the last word."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.joining import joined
from enrich.stage.task.fate import Mask

_DIGITS = b"-0123456789"


def may_fit(first: npt.NDArray[np.uint8], kind: pa.DataType) -> Mask:
    """`first`: the first bytes of the texts, 0 for none."""
    form = next(form for matches, form in _FORMS if matches(kind))
    return _FIRST_BYTES[form][first]


def fitting(texts: pa.BinaryArray, first: npt.NDArray[np.uint8], kind: pa.DataType) -> pa.BinaryArray:
    """The texts, with `null` for those that are of no use. Where text is wanted whole numbers, `true` and `false` are
    quoted."""
    fits = may_fit(first, kind)
    null = _bytes(b"null")
    if not fits.all():
        texts = pc.if_else(pa.array(fits), texts, null)
    if pa.types.is_integer(kind):
        return pc.if_else(pc.match_substring_regex(texts, "^-?[0-9]+$"), texts, null)
    return _as_text(texts, first) if pa.types.is_string(kind) else texts


def _as_text(texts: pa.BinaryArray, first: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    unquoted = _FIRST_BYTES["unquoted"][first]
    if not unquoted.any():
        return texts
    some = texts.filter(pa.array(unquoted))
    # A number is written as Python does: `-0` and `1e7` change.
    is_same = pc.match_substring_regex(some, "^(0|-?[1-9][0-9]*|true|false)$")
    # Very long ones are null: a parser sees to that.
    is_same = pc.and_(is_same, pc.less(pc.binary_length(some), 1_000))
    quoted = pc.if_else(is_same, joined(_bytes(b'"'), some, _bytes(b'"')), some)
    return pc.replace_with_mask(texts, pa.array(unquoted), quoted)


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())


def _set(marks: bytes) -> Mask:
    found_here = np.zeros(256, np.bool_)
    found_here[list(marks)] = True
    return found_here


_FIRST_BYTES = {
    "any": ~_set(b"\0"),
    "number": _set(_DIGITS),
    "number or text": _set(_DIGITS + b'"'),
    "boolean": _set(b"tf"),
    "text": _set(b'"'),
    "object": _set(b"{"),
    "list": _set(b"["),
    "unquoted": _set(_DIGITS + b"tf"),
}
_FORMS = (
    (pa.types.is_string, "any"),
    (pa.types.is_integer, "number"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "number or text"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_struct, "object"),
    (pa.types.is_map, "object"),
    (pa.types.is_list, "list"),
    (lambda _: True, "text"),
)
"""How the JSON of a type begins."""

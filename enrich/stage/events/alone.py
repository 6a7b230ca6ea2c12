"""JSON events with some of their members only, so that a parser can read them in columns whatever else is in them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.events.places import Marks, Spans, found
from enrich.stage.events.text import joined, name_text
from enrich.stage.task.fate import Mask

_DIGITS = b"-0123456789"


def alone(events: pa.BinaryArray, fields: pa.StructType) -> tuple[pa.BinaryArray, Mask]:
    """Each event as an object with these fields only, each once; and the events of which this could not be made. Only
    for usable events.

    A value that is of no use for its field, such as text for a number, is null. Whole numbers, `true` and `false` are
    quoted where text is wanted. Inside of lists and maps all stays as it is.
    """
    marks = Marks.of(events)
    is_odd = marks.with_escaped_names()
    whole = Spans(marks.starts, np.append(marks.starts[1:], len(marks.content)))
    return _object(marks, fields, whole, 1, is_odd), is_odd


def _object(marks: Marks, fields: pa.StructType, inside: Spans, deep: int, is_odd: Mask) -> pa.BinaryArray:
    parts: list[pa.Array | pa.Scalar] = []
    for field in fields:
        values = found(marks, field.name.encode(), deep, inside)
        is_odd[values.rows[~values.is_known]] = True
        spans = Spans.last_of(values, len(marks.starts))
        parts += [
            _bytes((b"," if parts else b"{") + name_text(field.name) + b":"),
            _value(marks, field, spans, deep, is_odd),
        ]
    return joined(*parts, _bytes(b"}"))


def _value(marks: Marks, field: pa.Field, spans: Spans, deep: int, is_odd: Mask) -> pa.BinaryArray:
    kind = field.type
    first = np.where(spans.are_there, marks.content[spans.begins], 0)
    fits = _FIRST_BYTES[_form(kind)][first]
    fitting = Spans(np.where(fits, spans.begins, 0), np.where(fits, spans.ends, 0))
    if pa.types.is_struct(kind) and kind.num_fields:
        texts = _object(marks, kind, fitting, deep + 1, is_odd)
        return pc.if_else(pa.array(fits), texts, _bytes(b"null"))
    texts = fitting.texts(marks.content)
    if pa.types.is_integer(kind):
        is_whole = pc.match_substring_regex(texts, "^-?[0-9]+$")
        texts = pc.if_else(is_whole, texts, _bytes(b"null"))
    elif pa.types.is_string(kind):
        texts = _as_text(texts, first)
    return pc.fill_null(texts, _bytes(b"null"))


def _as_text(texts: pa.BinaryArray, first: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    unquoted = _FIRST_BYTES["unquoted"][first]
    if not unquoted.any():
        return texts
    some = texts.filter(pa.array(unquoted))
    # A number is written as Python does: `-0` and `1e7` change.
    is_same = pc.match_substring_regex(some, "^(0|-?[1-9][0-9]{0,999}|true|false)$")
    quoted = pc.if_else(is_same, joined(_bytes(b'"'), some, _bytes(b'"')), some)
    return pc.replace_with_mask(texts, pa.array(unquoted), quoted)


def _form(kind: pa.DataType) -> str:
    return next(form for matches, form in _FORMS if matches(kind))


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

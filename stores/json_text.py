"""JSON in columns of text: which columns hold it, how any text becomes a JSON string, and numbers in JSON that Arrow
must not read."""

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

JSON_TEXT = {b"enrich.text": b"json"}
"""The metadata of a field whose text is JSON: a database's json, arrays and unbounded numbers. Its type is string."""

_LOOKED_BACK = 3
_OTHER, _NUMBER = 0, 1
_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b"0123456789.")] = _NUMBER
_KINDS[list(b'":,[ \t\r\n+-')] = 2  # what may stand before a number
_DIGIT = np.zeros(256, np.bool_)
_DIGIT[list(b"0123456789")] = True
_BACKSLASH = ord("\\")
_ESCAPES = tuple(rb"\u00" + code for code in (b"2b", b"2B", b"2d", b"2D", b"2e", b"2E", b"45", b"65"))
"""Of what a number has beside its digits: + - . E e."""

# The characters that JSON requires to be escaped. Everything else is written unchanged, in UTF-8.
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def is_json_text(field: pa.Field) -> bool:
    """Whether the field's text is a JSON value, to be written unchanged."""
    return bool(field.metadata) and field.metadata.get(b"enrich.text") == b"json"


def quoted(texts: pa.StringArray) -> pa.StringArray:
    """Each text as a JSON string; null stays null."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    to_escape = pc.match_substring_regex(texts, _NEEDS_ESCAPE)
    if not pc.any(to_escape).as_py():
        return plain
    # Via bytes: text from a parser need not be valid UTF-8; such bytes stay as they are.
    escaped = [_escaped(value) for value in texts.filter(to_escape).cast(pa.binary()).to_pylist()]
    return pc.replace_with_mask(plain, to_escape.fill_null(False), pa.array(escaped, pa.binary()).view(pa.string()))


def _escaped(value: bytes) -> bytes:
    return json.dumps(value.decode(errors="surrogateescape"), ensure_ascii=False).encode(errors="surrogateescape")


def has_decimal(kind: pa.DataType) -> bool:
    """Whether the type is one of decimals, or has one within."""
    return pa.types.is_decimal(kind) or any(has_decimal(kind.field(i).type) for i in range(kind.num_fields))


def tiny_exponents(content: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Where an exponent below -9 may stand in JSON, be it in a number or a text. Rather too many places than too few:
    two in a hundred UUIDs have what looks like one.

    Arrow must not read such a number as a decimal: it looks into a table of 76 powers of ten, however large the
    exponent is (Arrow 26). By what stands behind the table 1E-194 became 0.00, and 1E-2000000 ends the process.
    """
    found = _behind_numbers(content, np.flatnonzero(content == ord("-")))
    if (content == _BACKSLASH).any():
        found = np.concatenate([found, *(_places(content, escape) for escape in _ESCAPES)])
    return found


def _behind_numbers(content: npt.NDArray[np.uint8], minus: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    minus = minus[(minus >= 2) & (minus + 2 < len(content))]
    minus = minus[(content[minus - 1] | 0x20) == ord("e")]
    first, second = content[minus + 1], content[minus + 2]
    has_two = (first == _BACKSLASH) | (_DIGIT[first] & (_DIGIT[second] | (second == _BACKSLASH)))
    minus = minus[has_two & (_KINDS[content[minus - 2]] == _NUMBER)]
    possible, going = np.ones(len(minus), np.bool_), np.ones(len(minus), np.bool_)
    for step in range(3, 3 + _LOOKED_BACK):
        kinds = _KINDS[content[np.maximum(minus - step, 0)]]
        possible &= ~going | (kinds != _OTHER)
        going &= kinds == _NUMBER
    return minus[possible]


def _places(content: npt.NDArray[np.uint8], word: bytes) -> npt.NDArray[np.intp]:
    places = np.flatnonzero(content[: max(0, len(content) - len(word) + 1)] == word[0])
    for step, byte in enumerate(word[1:], 1):
        places = places[content[places + step] == byte]
    return places

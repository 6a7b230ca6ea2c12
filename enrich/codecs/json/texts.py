"""Values of sources that have only text: which of them are valid JSON of their column's type."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_INTEGER = r"^-?(0|[1-9][0-9]{0,18})$"
_DIGITS = pa.decimal128(19, 0)
"""Of 64 bits. They have not all numbers of so many digits."""
_LONG = np.iinfo(np.int64)
_BOOLEAN = r"^(true|false)$"


def is_text_in_json(kind: pa.DataType) -> bool:
    """Whether values of this type are strings in JSON, so that any text is valid."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_decimal(kind)
    )


def is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def as_json(texts: pa.StringArray, kind: pa.DataType) -> pa.StringArray:
    """For types that are not strings in JSON: valid JSON as it is, anything else as a JSON string. The decoder then
    refuses only this row, and says where the value is."""
    if pa.types.is_nested(kind):
        fits = pa.array([None if text is None else is_json(text) for text in texts.to_pylist()], pa.bool_())
    else:
        if pa.types.is_boolean(kind):
            texts = pc.utf8_lower(texts)  # Python's and Spark's own writers differ here
        fits = pc.match_substring_regex(texts, _BOOLEAN if pa.types.is_boolean(kind) else _NUMBER)
    if pc.all(fits).as_py() is not False:
        return texts
    wrong = [None if text is None else quoted(text) for text in texts.filter(pc.invert(fits)).to_pylist()]
    return pc.replace_with_mask(texts, pc.invert(fits).fill_null(False), pa.array(wrong, pa.string()))


def as_key_part(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """The texts in the type that a look-up's key has; null if a text is no such value."""
    if pa.types.is_integer(kind):
        whole = pc.if_else(pc.match_substring_regex(texts, _INTEGER), texts, None).cast(_DIGITS)
        least, most = (pa.scalar(int(limit)).cast(_DIGITS) for limit in (_LONG.min, _LONG.max))
        fits = pc.and_(pc.greater_equal(whole, least), pc.less_equal(whole, most))
        return pc.if_else(fits, whole, pa.scalar(None, _DIGITS)).cast(pa.int64())
    if pa.types.is_boolean(kind):
        texts = pc.utf8_lower(texts)
        return pc.if_else(pc.match_substring_regex(texts, _BOOLEAN), texts, None).cast(pa.bool_())
    return texts

"""Values that a source has as text only: which of them are the JSON of their column's type."""

import json

import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_BOOLEAN = r"^(true|false)$"


def is_text_in_json(kind: pa.DataType) -> bool:
    """Whether the JSON of this type is text, so that any text is the JSON of something."""
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
    """For types that are no text in JSON: what is JSON as it is. Anything else as text, which the decoder finds bad,
    with its place, in this row alone."""
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
    """In the type that a look-up's key has; null where the text is no such value."""
    if pa.types.is_integer(kind):
        return pc.if_else(pc.match_substring_regex(texts, _INTEGER), texts, None).cast(pa.int64())
    if pa.types.is_boolean(kind):
        texts = pc.utf8_lower(texts)
        return pc.if_else(pc.match_substring_regex(texts, _BOOLEAN), texts, None).cast(pa.bool_())
    return texts

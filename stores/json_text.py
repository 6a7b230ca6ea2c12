"""JSON in columns of text: which columns hold it, and how any text becomes a JSON string."""

import json

import pyarrow as pa
import pyarrow.compute as pc

JSON_TEXT = {b"enrich.text": b"json"}
"""The metadata of a field whose text is JSON: a database's json, arrays and unbounded numbers. Its type is string."""

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

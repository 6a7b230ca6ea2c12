"""Marks columns whose text is JSON, in their field's metadata: a database's json, arrays and unbounded numbers."""

import pyarrow as pa

JSON_TEXT = {b"enrich.text": b"json"}
"""The metadata of such a field; its type is string."""


def is_json_text(field: pa.Field) -> bool:
    """Whether the field's text is a JSON value, to be written unchanged."""
    return bool(field.metadata) and field.metadata.get(b"enrich.text") == b"json"

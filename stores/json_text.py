"""Columns whose text is JSON itself, marked in their field: json of a database, its arrays, its unbounded numbers."""

import pyarrow as pa

JSON_TEXT = {b"enrich.text": b"json"}
"""The metadata of such a field; its type is string."""


def is_json_text(field: pa.Field) -> bool:
    """Whether the field's text is a JSON value, to be written as it stands."""
    return bool(field.metadata) and field.metadata.get(b"enrich.text") == b"json"

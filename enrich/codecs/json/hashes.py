"""Rows that stand in hashes of Redis, a field for each column."""

from collections.abc import Mapping

import pyarrow as pa

from enrich.codecs.json.texts import is_json, is_text_in_json, quoted

DELETED = b"_deleted"
"""Write-back sets this field in the hash of a deleted key."""


class HashRows:
    """Turns hashes into JSON objects. A field is taken as text if its column's type is text in JSON; otherwise it must
    contain a JSON value."""

    def __init__(self, columns: pa.Schema) -> None:
        self._is_text = {field.name.encode(): is_text_in_json(field.type) for field in columns}

    def as_json(self, fields: Mapping[bytes, bytes]) -> bytes:
        """Only the columns. A value that does not fit its column makes the row bad when it is decoded."""
        return b"{%b}" % b",".join(
            b"%b:%b" % (_quoted(name), value if not self._is_text[name] and is_json(value) else _quoted(value))
            for name, value in fields.items()
            if name in self._is_text
        )


def _quoted(text: bytes) -> bytes:
    # Bytes that are not UTF-8 pass unchanged, so that the decoder reports them.
    return quoted(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

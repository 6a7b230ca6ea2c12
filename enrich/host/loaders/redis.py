"""Rows from Redis: strings in the table's format, and with `format: json` also hashes."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from enrich.host.loaders.source import SOURCE_ROWS, SourceBatch
from enrich.host.loaders.texts import is_json, is_text_in_json, quoted
from stores.external.redis.reading import RedisEntries, RedisReader

_DELETED = b"_deleted"
"""Write-back sets this field in the hash of a deleted key."""

_FIXED = re.compile(r"(?:\\.|[^\\*?\[])*", re.DOTALL)


class RedisSource:
    """See `RowSource`."""

    def __init__(self, url: str, pattern: str | None, columns: pa.Schema, *, hashes: bool, where: str) -> None:
        """`hashes`: whether hashes are rows too, with a field for each column."""
        self._url = url
        self._pattern = pattern
        self._prefix = fixed_beginning(pattern or "").encode()
        self._hashes = HashRows(columns) if hashes else None
        self._where = where

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:
        reader = RedisReader(self._url, stopping=stopping, where=self._where)
        for entries in reader.entries(self._pattern):
            yield self._batch(entries)

    def _batch(self, entries: RedisEntries) -> SourceBatch:
        left_out = Counter({f"hold a {kind}": count for kind, count in entries.others.items()})
        keys: list[bytes] = []
        values: list[bytes] = []
        for key, value in zip(entries.keys, entries.values, strict=True):
            if isinstance(value, bytes):
                row = value
            elif self._hashes is None:
                left_out["hold a hash, which only format: json can take"] += 1
                continue
            elif _DELETED in value:
                continue
            else:
                row = self._hashes.as_json(value)
            keys.append(key.removeprefix(self._prefix))
            values.append(row)
        columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
        return SourceBatch(pa.RecordBatch.from_arrays(columns, schema=SOURCE_ROWS), left_out)


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


def fixed_beginning(pattern: str) -> str:
    """The common prefix of all keys that match: the pattern up to its first special character."""
    fixed = _FIXED.match(pattern)
    return re.sub(r"\\(.)", r"\1", fixed[0] if fixed else "", flags=re.DOTALL)

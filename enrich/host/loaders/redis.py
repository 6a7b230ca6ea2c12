"""Rows from Redis: strings in the table's format, and for json hashes too."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from enrich.host.loaders.source import SOURCE_ROWS, SourceBatch
from enrich.host.loaders.texts import is_json, is_text_in_json, quoted
from stores.external.redis.reading import RedisEntries, RedisReader

_DELETED = b"_deleted"
"""The field by which write-back marks a hash of a key that was deleted."""

_FIXED = re.compile(r"(?:\\.|[^\\*?\[])*", re.DOTALL)


class RedisSource:
    """See `RowSource`."""

    def __init__(self, url: str, pattern: str | None, columns: pa.Schema, *, hashes: bool, where: str) -> None:
        """`hashes`: whether they are rows as well, their fields by the names of the columns."""
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
    """Hashes as JSON objects. A field of a column that is text in JSON is taken as it is; of any other column it must
    be the JSON of a value."""

    def __init__(self, columns: pa.Schema) -> None:
        self._is_text = {field.name.encode(): is_text_in_json(field.type) for field in columns}

    def as_json(self, fields: Mapping[bytes, bytes]) -> bytes:
        """The columns alone. A value that does not fit its column is found bad when the row is decoded."""
        return b"{%b}" % b",".join(
            b"%b:%b" % (_quoted(name), value if not self._is_text[name] and is_json(value) else _quoted(value))
            for name, value in fields.items()
            if name in self._is_text
        )


def _quoted(text: bytes) -> bytes:
    # What is no UTF-8 goes through unchanged, so that the decoder finds it bad and says so.
    return quoted(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def fixed_beginning(pattern: str) -> str:
    """What all keys that match have in common: the pattern up to its first special character."""
    fixed = _FIXED.match(pattern)
    return re.sub(r"\\(.)", r"\1", fixed[0] if fixed else "", flags=re.DOTALL)

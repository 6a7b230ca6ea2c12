"""Rows from Redis: strings in the table's format, and with `format: json` also hashes."""

from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow as pa

from enrich.codecs.json.hashes import DELETED, HashRows
from enrich.host.loaders.source import SOURCE_ROWS, SourceBatch
from enrich.host.loaders.whole import LARGEST
from stores.external.redis.reading import RedisEntries, RedisReader, fixed_beginning


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
        reader = RedisReader(self._url, stopping=stopping, where=self._where, most_bytes=LARGEST)
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
            elif DELETED in value:
                continue
            else:
                row = self._hashes.as_json(value)
            keys.append(key.removeprefix(self._prefix))
            values.append(row)
        columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
        return SourceBatch(pa.RecordBatch.from_arrays(columns, schema=SOURCE_ROWS), left_out)

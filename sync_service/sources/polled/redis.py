"""Keys of Redis that match a pattern as a source: read whole at each interval. SCAN has every key that is there all the
time; one that comes or goes meanwhile may be there or not."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from enrich.base.errors import Retryable
from enrich.codecs.json.hashes import DELETED, HashRows
from enrich.codecs.rows import valid_text
from stores.clock import SystemClock
from stores.external.redis.reading import RedisEntries, RedisReader, Value, fixed_beginning
from sync_service.sources.polled.json_rows import JsonRows
from sync_service.sources.polled.source import Answer, Extent, Progress, Reading

KEY, VALUE = "_key", "value"


class RedisSource:
    """`columns`: None for strings, which have one, `value`."""

    key = (KEY,)
    readings_until_deleted = 2

    def __init__(
        self, reader: RedisReader, pattern: str, columns: pa.Schema | None, *, hashes: bool, where: str
    ) -> None:
        self._reader = reader
        self._pattern = pattern
        self._prefix = fixed_beginning(pattern).encode()
        self._columns = pa.schema([(VALUE, pa.string())]) if columns is None else columns
        self._hashes = HashRows(self._columns) if hashes else None
        self._rows = None if columns is None else JsonRows(columns, where)
        self._where = where

    @contextmanager
    def ask(self, progress: Progress, columns: Sequence[str] | None) -> Iterator[Answer | None]:  # noqa: ARG002 - all is read
        started = SystemClock().now_ms()
        values = tuple(name for name in self._columns.names if columns is None or name in columns)
        rows = Reading(Extent.whole, map(self._batch, self._reader.entries(self._pattern)), values)
        yield Answer([rows], Progress(whole_at_ms=started, shape=str(self._columns)))

    def _batch(self, entries: RedisEntries) -> pa.RecordBatch:
        kinds = Counter(entries.others)
        wanted: dict[bytes, bytes] = {}
        for key, value in zip(entries.keys, entries.values, strict=True):
            if not self._fits(value):
                kinds["hash" if self._hashes is None else "string"] += 1
            elif isinstance(value, bytes):
                wanted[key.removeprefix(self._prefix)] = value
            elif self._hashes is not None and DELETED not in value:
                wanted[key.removeprefix(self._prefix)] = self._hashes.as_json(value)
        if kinds:
            what = ", ".join(f"{count} hold a {kind}" for kind, count in sorted(kinds.items()))
            expected = "text" if self._hashes is None else "hash"
            raise Retryable(
                f"of the keys that match {self._pattern}, {what}, and a {expected} is expected",
                where=self._where,
                next_step="correct `pattern` or `as`",
            )
        keys = pa.array([*wanted], pa.binary())
        batch = self._texts([*wanted.values()]) if self._rows is None else self._rows.batch([*wanted.values()])
        return pa.RecordBatch.from_arrays([keys, *batch.columns], names=[KEY, *self._columns.names])

    def _fits(self, value: Value) -> bool:
        return isinstance(value, Mapping) == (self._hashes is not None)

    def _texts(self, values: Sequence[bytes]) -> pa.RecordBatch:
        texts = pa.array(values, pa.binary())
        if not valid_text(texts).all():
            raise Retryable("a value is not UTF-8", where=self._where, next_step="correct `pattern`")
        return pa.RecordBatch.from_arrays([texts.cast(pa.string())], schema=self._columns)

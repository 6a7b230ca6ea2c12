"""Keys of Redis that match a pattern as a source: read whole at each interval. SCAN has every key that is there all the
time; one that comes or goes meanwhile may be there or not. Between two readings Redis may tell which keys are written.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa

from enrich.base.errors import Retryable
from enrich.codecs.json.hashes import DELETED, HashRows
from enrich.codecs.rows import valid_text
from stores.clock import SystemClock
from stores.external.redis.notifications import KeyNotifications
from stores.external.redis.reading import RedisEntries, RedisReader, Value, fixed_beginning
from sync_service.sources.polled.json_rows import JsonRows
from sync_service.sources.polled.source import Answer, Extent, Progress, Reading

KEY, VALUE = "_key", "value"


class RedisSource:
    key = (KEY,)
    readings_until_deleted = 2
    may_rest = False

    def __init__(self, reader: RedisReader, rows: "RedisRows", hints: "RedisHints | None" = None) -> None:
        self.hints = hints
        self._reader = reader
        self._rows = rows

    @contextmanager
    def ask(self, progress: Progress, columns: Sequence[str] | None) -> Iterator[Answer | None]:  # noqa: ARG002 - all is read
        if self.hints is not None:
            self.hints.begin()
        started = SystemClock().now_ms()
        rows = Reading(Extent.whole, self._batches(), self._rows.values(columns))
        yield Answer([rows], Progress(whole_at_ms=started, shape=str(self._rows.columns)))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for entries in self._reader.entries(self._rows.pattern):
            yield self._rows.batch(entries)
            if self.hints is not None:
                self.hints.listen()


class RedisHints:
    """See `Hints`."""

    def __init__(self, notifications: KeyNotifications, reader: RedisReader, rows: "RedisRows") -> None:
        self.lacks: str | None = None
        self._notifications = notifications
        self._reader = reader
        self._rows = rows

    def begin(self) -> None:
        """All rows are about to be read: only what is told from now on can be newer."""
        self.lacks = self._notifications.begin()

    def listen(self) -> None:
        """So that Redis need not keep what it tells while all rows are read: it ends a connection that is slow."""
        with suppress(Retryable):  # the next wait says so again
            self._notifications.wait(0)

    def wait(self, seconds: float) -> bool:
        return self._notifications.wait(seconds)

    @contextmanager
    def ask(self, progress: Progress, columns: Sequence[str] | None) -> Iterator[Answer | None]:
        batches = map(self._rows.batch, self._reader.entries_of(self._notifications.take()))
        yield Answer([Reading(Extent.changes, batches, self._rows.values(columns))], progress)

    def close(self) -> None:
        self._notifications.close()


class RedisRows:
    """Keys and their values become rows. `columns`: None for strings, which have one, `value`."""

    def __init__(self, pattern: str, columns: pa.Schema | None, *, hashes: bool, where: str) -> None:
        self.pattern = pattern
        self._prefix = fixed_beginning(pattern).encode()
        self.columns = pa.schema([(VALUE, pa.string())]) if columns is None else columns
        self._hashes = HashRows(self.columns) if hashes else None
        self._json = None if columns is None else JsonRows(columns, where)
        self._where = where

    def values(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(name for name in self.columns.names if wanted is None or name in wanted)

    def batch(self, entries: RedisEntries) -> pa.RecordBatch:
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
                f"of the keys that match {self.pattern}, {what}, and a {expected} is expected",
                where=self._where,
                next_step="correct `pattern` or `as`",
            )
        keys = pa.array([*wanted], pa.binary())
        batch = self._texts([*wanted.values()]) if self._json is None else self._json.batch([*wanted.values()])
        return pa.RecordBatch.from_arrays([keys, *batch.columns], names=[KEY, *self.columns.names])

    def _fits(self, value: Value) -> bool:
        return isinstance(value, Mapping) == (self._hashes is not None)

    def _texts(self, values: Sequence[bytes]) -> pa.RecordBatch:
        texts = pa.array(values, pa.binary())
        if not valid_text(texts).all():
            raise Retryable("a value is not UTF-8", where=self._where, next_step="correct `pattern`")
        return pa.RecordBatch.from_arrays([texts.cast(pa.string())], schema=self.columns)

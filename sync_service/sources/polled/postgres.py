"""A PostgreSQL table or view as a source: read whole first, then changes by a cursor column, deletions by all keys."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from stores.external.postgres.reading import PostgresReader, PostgresSnapshot, RunningWrites, TableShape
from sync_service.sources.polled.cursors import CursorPosition, Mark, trusted_until_ms
from sync_service.sources.polled.source import Answer, Extent, Progress, Reading

_log = logging.getLogger("enrich.sync")

_SETTLES_MS = 1_000
"""Until there is a safe mark the table is read whole again, but not more often than this."""


@dataclass(frozen=True, slots=True)
class TableQuery:
    """What is read from a table, and how often; times in milliseconds, 0: never."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    cursor: str | None = None
    overlap_ms: int = 60_000
    keys_every_ms: int = 300_000
    whole_every_ms: int = 86_400_000


class PostgresSource:
    readings_until_deleted = 1
    may_rest = False
    hints = None

    def __init__(self, reader: PostgresReader, query: TableQuery) -> None:
        self.key = query.key
        self._reader = reader
        self._query = query
        self._warned: set[str] = set()

    @contextmanager
    def ask(self, progress: Progress, columns: Sequence[str] | None) -> Iterator[Answer | None]:
        query = self._query
        with self._reader.snapshot(query.table) as snapshot:
            table = snapshot.shape(query.table)
            values = self._values(table, columns)
            described = [str(column.field) for column in table.select(list(dict.fromkeys((*values, *query.key))))]
            progress_asked = replace(progress, shape=repr((query, values, described)))
            now = snapshot.moment.now_ms
            if query.cursor is None:
                yield Answer([self._whole(snapshot, table, values)], replace(progress_asked, whole_at_ms=now))
                return
            self._advise(table, query.cursor, snapshot)
            before = progress.position if progress.shape == progress_asked.shape else None
            position = None if before is None else CursorPosition.from_json(before)
            if position is None or self._is_due(progress, position, now):
                readings = [self._whole(snapshot, table, values)]
                after = replace(progress_asked, whole_at_ms=now, keys_at_ms=now)
            else:
                bound = position.bound(query.overlap_ms)
                greater = None if bound.value is None else (query.cursor, bound.value)
                wanted = list(dict.fromkeys((*query.key, *values)))
                readings = [Reading(Extent.changes, snapshot.rows(table, wanted, after=greater), values)]
                after = progress_asked
                if query.keys_every_ms and _is_past(progress.keys_at_ms or 0, query.keys_every_ms, now):
                    readings.append(Reading(Extent.keys, snapshot.rows(table, list(query.key))))
                    after = replace(after, keys_at_ms=now)
            advanced = self._advanced(snapshot, table, query.cursor, position)
            yield Answer(readings, replace(after, position=advanced.as_json()))

    def _values(self, table: TableShape, columns: Sequence[str] | None) -> tuple[str, ...]:
        if self._query.columns is not None:
            return self._query.columns
        return tuple(c.name for c in table.columns if columns is None or c.name in columns)

    def _whole(self, snapshot: PostgresSnapshot, table: TableShape, values: tuple[str, ...]) -> Reading:
        wanted = list(dict.fromkeys((*self._query.key, *values)))
        return Reading(Extent.whole, snapshot.rows(table, wanted), values)

    def _is_due(self, progress: Progress, position: CursorPosition, now: int) -> bool:
        if progress.whole_at_ms is None:
            return True
        every = self._query.whole_every_ms
        if not position.is_settled:
            soon = max(self._query.overlap_ms, _SETTLES_MS)
            every = min(every or soon, soon)
        return bool(every) and _is_past(progress.whole_at_ms, every, now)

    def _advanced(
        self, snapshot: PostgresSnapshot, table: TableShape, cursor: str, position: CursorPosition | None
    ) -> CursorPosition:
        moment, overlap = snapshot.moment, self._query.overlap_ms
        if snapshot.writes is not None:
            return self._advanced_on_standby(snapshot, snapshot.writes, table, cursor, position)
        # A transaction that begins after the snapshot has no lower value than those in it.
        mark = Mark(snapshot.taken_ms, snapshot.newest(table, cursor))
        if position is not None:
            return position.advanced(mark, moment.oldest_transaction_ms, overlap)
        (column,) = table.select([cursor])
        if column.is_time:
            # The greatest value at that moment is unknown; the present one, set back by the time since, is low enough.
            trusted = trusted_until_ms(moment.oldest_transaction_ms, moment.now_ms, overlap)
            earlier = Mark(trusted, snapshot.newest(table, cursor, back_ms=moment.now_ms - trusted))
            return CursorPosition((earlier, mark), moment.oldest_transaction_ms, is_settled=True)
        return CursorPosition((mark,), moment.oldest_transaction_ms, is_settled=False)

    def _advanced_on_standby(
        self,
        snapshot: PostgresSnapshot,
        writes: RunningWrites,
        table: TableShape,
        cursor: str,
        position: CursorPosition | None,
    ) -> CursorPosition:
        overlap = self._query.overlap_ms
        (column,) = table.select([cursor])
        # `now()` is the start of a transaction, and its first write may come later. The overlap is subtracted from the
        # value, not from the moment: while a standby lags, its clock says nothing about the primary's.
        newest = snapshot.newest(table, cursor, back_ms=overlap if column.is_time else 0)
        mark = Mark(snapshot.taken_ms, newest, writes.next)
        if position is None:
            position = CursorPosition((), 0, is_settled=False)
        return position.advanced(mark, position.horizon_of(mark, writes.oldest), overlap)

    def _advise(self, table: TableShape, cursor: str, snapshot: PostgresSnapshot) -> None:
        if cursor not in table.first_in_index:
            self._warn_once(f"no index of {table.name} begins with {cursor}: each reading scans the whole table")
        if snapshot.writes is not None:
            self._warn_once(
                "this server is a standby, which does not know when transactions began: if a transaction's first write "
                f"comes later than the overlap, {self._query.overlap_ms} ms, its changes are only found by the next "
                "whole reading"
            )
        elif not snapshot.moment.all_seen:
            self._warn_once(
                "this user may not see when other users' transactions began (grant pg_read_all_stats), or they do not "
                "say it (set track_activities = on): changes of transactions longer than the overlap, "
                f"{self._query.overlap_ms} ms, are only found by the next whole reading"
            )

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text, extra={"table": self._query.table})


def _is_past(at_ms: int, every_ms: int, now_ms: int) -> bool:
    """Of a moment in the future, as after a failover to a server whose clock is behind, nobody knows how long ago it
    was."""
    return not 0 <= now_ms - at_ms < every_ms

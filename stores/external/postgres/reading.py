"""Reads PostgreSQL as Arrow batches: one consistent snapshot, streamed by COPY, in bounded memory.

COPY's text goes from libpq to Arrow's CSV parser: 2.3 M rows/s of 100 bytes on one core; psycopg's own COPY: 1.2 M.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg import errors, pq

from stores.errors import ConfigError, Retryable, Unreachable
from stores.external.postgres.errors import postgres_errors
from stores.external.postgres.session import LIMITS_TRANSACTIONS_SINCE, connect
from stores.external.postgres.types import Column, parsed, quoted
from stores.external.postgres.waiting import arrived

_CHUNK = 4 << 20
_CONNECT_S = 10
# Fixed formats of all values, whatever the server's or the user's defaults are.
_SETTINGS = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'hex'; "
    "SET extra_float_digits = 1; SET client_encoding = 'UTF8'; SET statement_timeout = 0; "
    "SET idle_in_transaction_session_timeout = 0"
)


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns and indexes of a table or view at this moment."""

    id: int
    """In the database."""
    name: str
    """As SQL needs it: quoted, and with its schema if that is not in the search path."""
    columns: tuple[Column, ...]
    unique: tuple[frozenset[str], ...]
    """Sets of columns that are unique and not null."""
    first_in_index: frozenset[str]
    """Columns that are the first one of an index."""

    def select(self, names: Sequence[str]) -> tuple[Column, ...]:
        """The columns with these names. Raises ConfigError for an unknown one."""
        by_name = {column.name: column for column in self.columns}
        for name in names:
            if name not in by_name:
                raise ConfigError(
                    f"the table has no column {name}",
                    where=f"table {self.name}",
                    next_step=f"its columns: {', '.join(by_name)}",
                )
        return tuple(by_name[name] for name in names)


@dataclass(frozen=True, slots=True)
class RunningWrites:
    """For a snapshot on a standby: the transactions that it cannot see. Only the primary knows when they began."""

    oldest: int
    """All transactions with a lower id had ended."""
    next: int
    """Transactions with this id or a higher one wrote for the first time after the snapshot."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The server's clock just before a snapshot, and the start of the oldest transaction that was under way then.

    The snapshot does not contain what such a transaction commits later. Milliseconds; transactions that this user may
    not see are not counted.
    """

    now_ms: int
    oldest_transaction_ms: int
    all_seen: bool


class PostgresReader:
    """Reads one database. Each snapshot has its own connection.

    Every wait ends when `stopping` says so (Retryable) or when nothing has arrived for `stalled_s` (Unreachable), or
    after `lock_s` for a table that somebody locks.
    """

    def __init__(
        self,
        dsn: str,
        *,
        stopping: Callable[[], bool] = lambda: False,
        stalled_s: float = 60.0,
        lock_s: float = 10.0,
    ) -> None:
        self._settings = f"{_SETTINGS}; SET lock_timeout = {round(lock_s * 1000)}"
        self._dsn = dsn
        self._stopping = stopping
        self._stalled_s = stalled_s

    @contextmanager
    def snapshot(self, locked: str | None = None) -> Iterator["PostgresSnapshot"]:
        """Everything read inside the block is as of one moment. Takes no lock that keeps others from writing.

        `locked`: a table that nobody truncates or rewrites before the end of the block. To a snapshot from before that
        it would be empty. Of a view nothing is locked.
        """
        connection = connect(self._dsn, timeout_s=_CONNECT_S, application="enrich")
        try:
            wire = _Wire(connection.pgconn, self._stopping, self._stalled_s)
            wire.run(self._settings)
            if connection.info.server_version >= LIMITS_TRANSACTIONS_SINCE:
                wire.run("SET transaction_timeout = 0")
            moment = _moment(wire)
            tables = [] if locked is None else _texts(wire.run(_TABLE.format(_literal(locked)), locked))
            wire.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            for (name,) in tables:  # the snapshot is taken by the first query after it
                wire.run(f"LOCK TABLE {name} IN ACCESS SHARE MODE", locked)
            ((taken, is_standby, oldest, newest),) = _texts(wire.run(_TAKEN))
            writes = RunningWrites(int(str(oldest)), int(str(newest))) if is_standby == "t" else None
            yield PostgresSnapshot(wire, moment, int(str(taken)), writes)
        finally:
            connection.close()  # also ends a COPY that was not read to its end


class PostgresSnapshot:
    """The database as of one moment.

    `taken_ms`: the server's clock just after it was taken. `writes`: only on a standby, the running transactions of the
    primary, which `moment` does not include there.
    """

    def __init__(self, wire: "_Wire", moment: Moment, taken_ms: int, writes: RunningWrites | None = None) -> None:
        self._wire = wire
        self.moment = moment
        self.taken_ms = taken_ms
        self.writes = writes

    def visible(self) -> tuple[str, str]:
        """Which transactions it sees, as PostgreSQL writes that; and up to where the log has all of them."""
        asked = "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        ((seen, until),) = _texts(self._wire.run(asked))
        return str(seen), str(until)

    def rows_of(self, shape: TableShape, names: Sequence[str], keys: Mapping[str, Sequence[str]]) -> pa.RecordBatch:
        """The rows with these keys: of each key column the texts of its values."""
        columns = shape.select(names)
        # Each value as its column's type: of texts no index of the key could be used. -1: without a length.
        named = ", ".join(f"format_type({column.type_id}, -1)" for column in shape.select(list(keys)))
        (types,) = _texts(self._wire.run(f"SELECT {named}"))
        tuples = ", ".join(
            f"({', '.join(f'{_literal(text)}::{kind}' for text, kind in zip(each, types, strict=True))})"
            for each in zip(*keys.values(), strict=True)
        )
        wanted = ", ".join(map(quoted, keys))
        selected = ", ".join(column.expression for column in columns)
        rows = f"SELECT {selected} FROM {shape.name} WHERE ({wanted}) IN (VALUES {tuples})"  # noqa: S608 - all is quoted
        text = b"".join(self._wire.copy(f"COPY ({rows}) TO STDOUT (FORMAT csv)", shape.name))
        if not text:
            return pa.RecordBatch.from_pylist([], schema=pa.schema([column.field for column in columns]))
        return parsed(text, columns, f"table {shape.name}")

    def shape(self, table: str) -> TableShape:
        """The shape, which nobody can change before the snapshot ends. Raises ConfigError if there is no such table."""
        literal = _literal(table)
        ((name,),) = _texts(self._wire.run(f"SELECT to_regclass({literal})::text", table))
        if name is None:
            raise ConfigError(
                "there is no such table, or this user may not see it",
                where=f"table {table}",
                next_step="correct its name, with its schema if need be: schema.table",
            )
        described = self._wire.run(f"SELECT * FROM {name} LIMIT 0", table)  # noqa: S608 - quoted by the server
        names = [(described.fname(i) or b"").decode() for i in range(described.nfields)]
        types = [described.ftype(i) for i in range(described.nfields)]
        asked = ", ".join(str(each) for each in {0, *types})
        kinds = _texts(self._wire.run(f"SELECT oid, typcategory FROM pg_type WHERE oid IN ({asked})"))  # noqa: S608
        categories = {str(kind): str(category) for kind, category in kinds}
        columns = tuple(
            Column(column, kind, described.fmod(i), categories.get(str(kind), "U"))
            for i, (column, kind) in enumerate(zip(names, types, strict=True))
        )
        # Only now: before, it could still be dropped and made again.
        ((oid,),) = _texts(self._wire.run(f"SELECT {_literal(name)}::regclass::oid", table))
        indexes = _texts(self._wire.run(_INDEXES.format(oid=oid)))
        unique = tuple(frozenset(_list(columns_)) for columns_, is_unique in indexes if is_unique == "t")
        return TableShape(
            int(str(oid)), name, columns, unique, frozenset(_list(columns_)[0] for columns_, _ in indexes)
        )

    def newest(self, shape: TableShape, column: str, *, back_ms: int = 0) -> str | None:
        """The column's greatest value; for a time the greatest that is not in the future. None if there is none.

        `back_ms` is subtracted from a time.
        """
        (found,) = shape.select([column])
        name = quoted(column)
        bound = f" AND {name} <= clock_timestamp()" if found.is_time else ""
        back = f" - interval '{back_ms} milliseconds'" if back_ms else ""
        statement = (
            f"SELECT ({name}{back})::text AS newest FROM {shape.name} t "  # noqa: S608
            f"WHERE {name} IS NOT NULL{bound} ORDER BY t.{name} DESC LIMIT 1"
        )
        rows = _texts(self._wire.run(statement, shape.name))
        return rows[0][0] if rows else None

    def rows(
        self, shape: TableShape, names: Sequence[str], *, after: tuple[str, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows in any order, some ten thousand per batch. `after`: only rows whose column has a greater value.

        For a date column also rows with the same date, since more rows may have been added on that day.
        """
        columns = shape.select(names)
        condition = ""
        if after is not None:
            (cursor,) = shape.select([after[0]])
            condition = f" WHERE {quoted(cursor.name)} {'>=' if cursor.is_day else '>'} {_literal(after[1])}"
        selected = ", ".join(column.expression for column in columns)
        statement = f"COPY (SELECT {selected} FROM {shape.name}{condition}) TO STDOUT (FORMAT csv)"  # noqa: S608
        where = f"table {shape.name}"
        for text in self._wire.copy(statement, shape.name):
            yield parsed(text, columns, where)


# Only indexes that cover all rows: valid, not partial, no expressions. Unique only without nulls, which may repeat.
_INDEXES = """
    SELECT json_agg(a.attname ORDER BY k.place)::text,
           i.indisunique AND i.indimmediate AND bool_and(a.attnotnull)
    FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = {oid} AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
    GROUP BY i.indexrelid, i.indisunique, i.indimmediate
"""

_TABLE = "SELECT oid::regclass::text FROM pg_class WHERE oid = to_regclass({}) AND relkind IN ('r', 'p')"

_TAKEN = """
    SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_is_in_recovery(),
           txid_snapshot_xmin(txid_current_snapshot()), txid_snapshot_xmax(txid_current_snapshot())
"""

# Whoever may write: client backends, but also those that apply another database's changes, and background workers
# such as pg_cron's. Not walsenders, which read the log and may take as long as their reader does, and not autovacuum,
# which changes no row. Of a session that this user may not see all but its ids is null; autovacuum has no user. A
# session without `track_activities` does not say when its transaction began.
_ACTIVITY = """
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
           floor(extract(epoch FROM least(min(xact_start), (SELECT min(prepared) FROM pg_prepared_xacts))) * 1000)
               ::bigint,
           bool_and(query IS DISTINCT FROM '<insufficient privilege>' AND state IS DISTINCT FROM 'disabled')
    FROM pg_stat_activity
    WHERE datname = current_database() AND usesysid IS NOT NULL AND pid <> pg_backend_pid()
        AND pid NOT IN (SELECT pid FROM pg_stat_replication)
"""


def _moment(wire: "_Wire") -> Moment:
    now, oldest, all_seen = _texts(wire.run(_ACTIVITY))[0]
    return Moment(int(str(now)), int(oldest if oldest is not None else str(now)), all_seen != "f")


class _Wire:
    """Runs statements with libpq's own calls, so that every wait can be interrupted."""

    def __init__(self, connection: Any, stopping: Callable[[], bool], stalled_s: float) -> None:
        self._connection = connection
        self._stopping = stopping
        self._stalled_s = stalled_s

    def run(self, statements: str, table: str | None = None) -> Any:
        """The last result."""
        with postgres_errors(table and f"table {table}"):
            self._connection.send_query(statements.encode())
            last = None
            while (result := self._next_result()) is not None:
                last = result
            return last

    def copy(self, statement: str, table: str) -> Iterator[bytes]:
        """The output of COPY, in pieces of whole lines."""
        with postgres_errors(f"table {table}"):
            self._connection.send_query(statement.encode())
            self._next_result()
            lines: list[bytes] = []
            size = 0
            while True:
                length, line = self._connection.get_copy_data(1)
                if length > 0:
                    lines.append(bytes(line))
                    size += length
                    if size >= _CHUNK:
                        yield b"".join(lines)
                        lines, size = [], 0
                elif length == 0:
                    self._wait()
                else:
                    break
            # Only the last result says whether the output was complete.
            while self._next_result() is not None:
                pass
            if lines:
                yield b"".join(lines)

    def _next_result(self) -> Any:
        while self._connection.is_busy():
            self._wait()
        result = self._connection.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)
        return result

    def _wait(self) -> None:
        end = time.monotonic() + self._stalled_s
        while not arrived(self._connection.socket, 0.2):
            if self._stopping():
                raise Retryable("reading PostgreSQL was stopped, because the process is stopping")
            if time.monotonic() > end:
                raise Unreachable(
                    f"PostgreSQL sent nothing for {self._stalled_s:g} s", next_step="check that the server runs"
                )
        self._connection.consume_input()


def _texts(result: Any) -> list[tuple[str | None, ...]]:
    def value(row: int, column: int) -> str | None:
        raw = result.get_value(row, column)
        return None if raw is None else raw.decode()

    return [tuple(value(row, column) for column in range(result.nfields)) for row in range(result.ntuples)]


def _list(json_text: str | None) -> list[str]:
    return [str(name) for name in json.loads(json_text or "[]")]


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"

"""A PostgreSQL table as a versioned store: one upsert per batch, which changes a row only if the new one is newer."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from stores.errors import BadRecord, ConfigError, RefusedForNow
from stores.external.postgres.markers import MARKERS, TABLE, Markers
from stores.external.postgres.session import PostgresSession
from stores.external.postgres.statements import NOTES, Statements, array_literal
from stores.external.postgres.table import PostgresLocation, read_table
from stores.external.protocol import StoredRows, VersionedRows, Written
from stores.external.texts import texts_of

_SCANNED = 5_000
_SCAN_DEADLINE_S = 3_600.0

_RESTS = 20
"""For so many times what a look at the table took there is no other: where each row of a batch is refused, looks take a
twentieth of the time."""

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 7306))"


class PostgresStore:
    """See `VersionedStore`. Connects at the first call."""

    def __init__(self, dsn: str, location: PostgresLocation, deadline_s: float = 10.0) -> None:
        """The dsn may contain a password: never show it."""
        self._location = location
        self._session = PostgresSession(dsn, deadline_s)
        self._made: Statements | None = None
        self._has_notes = False
        self._look_again_s = 0.0
        self._target = location.table
        self._released = location.release_column is not None
        self._markers = Markers(self._target, location.marker_ms, released=self._released)

    def check(self) -> list[str]:
        self._made = None
        self._statements()
        if self._location.deleted_column is not None:
            return []
        with self._session.connection() as connection:
            return self._markers.remarks(connection)

    def incarnation(self) -> str:
        with self._session.connection() as connection:
            # A promoted replica is another server with another start time; a restarted one may have lost writes. One of
            # which a backend has crashed keeps its time: see synchronous_commit in the session.
            row = connection.execute("SELECT pg_postmaster_start_time()::text").fetchone()
        return str(row[0]) if row else ""

    def write(
        self, rows: VersionedRows, seen: pa.Int64Array | None = None, seen_releases: pa.Int64Array | None = None
    ) -> Written:
        try:
            written = self._write(rows, seen, seen_releases)
        except BadRecord:
            # Of several rows nobody knows which one it is: the caller gives them one by one.
            if len(rows) > 1 or not self._has_other_columns():
                raise
            return self._write(rows, seen, seen_releases)
        if not written.refused or not self._has_other_columns():
            return written
        again = self._write(rows, seen, seen_releases)
        return Written(written.applied + again.applied, again.refused)

    def _has_other_columns(self) -> bool:
        """Looks at the table again before a row is refused: somebody may have given its column a type that holds it."""
        began_s = time.monotonic()
        if began_s < self._look_again_s:
            return False
        known = self._statements().table
        self._made = None
        table = self._statements().table
        ended_s = time.monotonic()
        self._look_again_s = ended_s + _RESTS * (ended_s - began_s)
        return (table.key, table.columns) != (known.key, known.columns)

    def _write(self, rows: VersionedRows, seen: pa.Int64Array | None, seen_releases: pa.Int64Array | None) -> Written:
        parts, refused = self._key_parts(rows.keys.to_pylist())
        refused |= self._not_kept(parts, rows.values)
        good = [index for index in range(len(rows)) if index not in refused]
        # Sorted, because two writers that lock the same rows in different orders would deadlock.
        order = pc.sort_indices(rows.keys.take(pa.array(good, pa.int64()))).to_pylist()
        indexes = [good[position] for position in order]
        if not indexes:
            return Written(0, refused)
        rows, places = rows.take(indexes), pa.array(indexes, pa.int64())
        before = None
        if seen is not None:
            of_release = None if seen_releases is None else seen_releases.take(places)
            before = self._version_literals(seen.take(places), of_release)
        keys = [array_literal(pa.array([part[index] for index in indexes], pa.string())) for part in parts]
        statements = self._statements()
        with self._session.connection() as connection:
            if self._location.deleted_column is None:
                applied = self._write_hard(connection, statements, rows, keys, before)
            elif before is None:
                applied = self._upsert(connection, statements, rows, keys)
            else:
                with connection.transaction():
                    connection.execute(statements.forget_version, [*keys, *before])
                    applied = self._upsert(connection, statements, rows, keys)
        return Written(applied, refused)

    def _version_literals(self, versions: pa.Int64Array, releases: pa.Int64Array | None) -> list[str]:
        """The versions, and the releases if the table has a column for them."""
        literals = [array_literal(texts_of(versions))]
        if self._released:
            releases = pa.array([0] * len(versions), pa.int64()) if releases is None else pc.fill_null(releases, 0)
            literals.append(array_literal(texts_of(releases)))
        return literals

    def _not_kept(self, parts: Sequence[list[str | None]], values: pa.StructArray) -> dict[int, BadRecord]:
        """The rows that the table would change silently, and those whose row belongs to another key."""
        statements = self._statements()
        if statements.changed is None and statements.taken is None:
            return {}
        keys = [array_literal(pa.array(part, pa.string())) for part in parts]
        refused: dict[int, BadRecord] = {}
        with self._session.connection() as connection:
            if statements.changed is not None:
                for index, position in connection.execute(statements.changed, [*keys, *self._literals(values)]):
                    refused[index] = self._changed(statements, position)
            if statements.taken is not None:
                for (index,) in connection.execute(statements.taken, keys):
                    refused.setdefault(index, self._taken())
        return refused

    def _changed(self, statements: Statements, position: int) -> BadRecord:
        table = statements.table
        if position < 0:
            column = table.key[-1 - position]
            what = f"the column {column.name} ({column.type}) would make another key of this one"
            next_step = "spell keys as PostgreSQL does, or make it a column of text"
        else:
            column = table.columns[position]
            what = f"the column {column.name} ({column.type}) would cut or change the value"
            next_step = "give the column a type that holds such values"
        return BadRecord(what, where=f"table {self._location.table}", next_step=next_step)

    def _taken(self) -> BadRecord:
        return RefusedForNow(
            f"the key columns ({', '.join(self._location.key)}) take this key for another one that has a row",
            where=f"table {self._location.table}",
            next_step="give the columns a type that tells the keys apart",
        )

    def _upsert(self, connection: Any, statements: Statements, rows: VersionedRows, keys: list[str]) -> int:
        deleted = array_literal(rows.values.is_null().cast(pa.string()))
        versions = self._version_literals(rows.versions, rows.releases)
        parameters = [*keys, *self._literals(rows.values), *versions, deleted]
        return int(connection.execute(statements.upsert, parameters).rowcount)

    def _write_hard(
        self, connection: Any, statements: Statements, rows: VersionedRows, keys: list[str], seen: list[str] | None
    ) -> int:
        """Marks of removed rows are in a table of ours. Only one writer at a time: a row and its mark are in two
        tables, and concurrent writers would not change both in the same order."""
        with connection.transaction():
            connection.execute(_LOCK, [self._target])
            if seen is not None:
                connection.execute(statements.forget_version, [*keys, *seen])
                self._markers.unmark_seen(connection, rows.keys, seen)
            applied = 0
            living = rows.values.is_valid()
            if pc.any(living).as_py():
                kept = rows.filter(living)
                parameters = [*self._key_literals(kept.keys.to_pylist()), *self._literals(kept.values)]
                parameters += self._version_literals(kept.versions, kept.releases)
                parameters += [array_literal(kept.keys), self._target]
                applied += connection.execute(statements.upsert, parameters).rowcount
            gone = pc.invert(living)
            if pc.any(gone).as_py():
                deleted = rows.filter(gone)
                versions = self._version_literals(deleted.versions, deleted.releases)
                connection.execute(statements.delete, [*self._key_literals(deleted.keys.to_pylist()), *versions])
                applied += self._markers.mark(connection, deleted.keys, versions)
        return int(applied)

    def scan(self) -> Iterator[StoredRows]:
        statements = self._statements()
        count = len(self._location.key)
        with (
            self._session.connection(_SCAN_DEADLINE_S) as connection,
            connection.transaction(),
            connection.cursor(name="enrich_scan") as cursor,
        ):
            cursor.execute(statements.scan, [])  # with (empty) parameters, because `%` in its names is escaped
            while rows := cursor.fetchmany(_SCANNED):
                keys = [self._joined(row[2 : 2 + count]) for row in rows]
                texts = [_encoded(row[2 + count :]) for row in rows]
                yield StoredRows(keys, [row[0] for row in rows], texts, [row[1] for row in rows])

    def is_empty(self) -> bool:
        statements = self._statements()
        with self._session.connection() as connection:
            parameters = [self._target] if self._location.deleted_column is None else []
            return connection.execute(statements.any_row, parameters).fetchone() != (True,)

    def fetch(self, keys: Sequence[bytes]) -> StoredRows:
        literals = self._key_literals(keys)
        with self._session.connection() as connection:
            if self._location.deleted_column is None:
                literals += [array_literal(pa.array(keys, pa.binary())), self._target]
            rows = connection.execute(self._statements().fetch, literals).fetchall()
        texts = [_encoded(row[3:]) if row[0] else None for row in rows]
        return StoredRows(keys, [row[1] for row in rows], texts, [row[2] for row in rows])

    def spelled_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        literals = self._key_literals(keys)
        with self._session.connection() as connection:
            rows = connection.execute(self._statements().spelled_keys, literals).fetchall()
        self._require_kept(rows)
        return [self._joined(row[1:]) for row in rows]

    def spelled(self, values: pa.StructArray) -> list[tuple[bytes | None, ...] | None]:
        valid = values.is_valid().to_pylist()
        if not self._location.columns:
            return [() if one else None for one in valid]
        with self._session.connection() as connection:
            rows = connection.execute(self._statements().spelled, self._literals(values)).fetchall()
        self._require_kept(rows)
        return [_encoded(row[1:]) if one else None for row, one in zip(rows, valid, strict=True)]

    def _require_kept(self, rows: Sequence[Any]) -> None:
        for changed, *_ in rows:
            if changed is not None:
                raise self._changed(self._statements(), changed)

    def load_note(self, name: str) -> str | None:
        self._make_table_of_notes()
        with self._session.connection() as connection:
            row = connection.execute("SELECT note FROM enrich_sync_notes WHERE name = %s", [name]).fetchone()
        return None if row is None else str(row[0])

    def save_note(self, name: str, note: str, replacing: str | None) -> bool:
        self._make_table_of_notes()
        if replacing is None:
            statement = "INSERT INTO enrich_sync_notes VALUES (%s, %s) ON CONFLICT DO NOTHING"
            parameters = [name, note]
        else:
            statement = "UPDATE enrich_sync_notes SET note = %s WHERE name = %s AND note = %s"
            parameters = [note, name, replacing]
        with self._session.connection() as connection:
            return bool(connection.execute(statement, parameters).rowcount)

    def close(self) -> None:
        self._session.close()

    def _statements(self) -> Statements:
        if self._made is None:
            with self._session.connection() as connection:
                self._made = Statements(read_table(connection, self._location, self._session.where), self._location)
            if self._location.deleted_column is None:
                self._make(TABLE, MARKERS)
                with self._session.connection() as connection:
                    self._markers.prepare(connection, self._session.where)
        return self._made

    def _make_table_of_notes(self) -> None:
        if not self._has_notes:
            self._make("enrich_sync_notes", NOTES)
            self._has_notes = True

    def _make(self, table: str, statement: str) -> None:
        with self._session.connection() as connection:
            if connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone() == (True,):
                return
            try:
                connection.execute(statement)
            except psycopg.errors.InsufficientPrivilege as error:
                raise ConfigError(
                    f"the table {table}, in which the sync service keeps what it must remember, is not there, "
                    "and this user may not create it",
                    where=self._session.where,
                    next_step=f"create it: {' '.join(statement.split())}",
                ) from error
            except (
                psycopg.errors.UniqueViolation,
                psycopg.errors.DuplicateTable,
                psycopg.errors.DuplicateObject,  # of the type that each table has
            ):
                return  # another instance was faster

    def _literals(self, values: pa.StructArray) -> list[str]:
        columns = [texts_of(pc.struct_field(values, name)) for name in self._location.columns.values()]
        return [array_literal(column) for column in columns]

    def _key_literals(self, keys: Sequence[bytes]) -> list[str]:
        """Raises BadRecord for one that cannot be a key."""
        parts, refused = self._key_parts(keys)
        for bad in refused.values():
            raise bad
        return [array_literal(pa.array(part, pa.string())) for part in parts]

    def _key_parts(self, keys: Sequence[bytes]) -> tuple[list[list[str | None]], dict[int, BadRecord]]:
        """The texts of each key column, and the keys that do not have exactly one part per column."""
        count, refused = len(self._location.key), dict[int, BadRecord]()
        parts: list[list[str | None]] = [[] for _ in range(count)]
        for index, key in enumerate(keys):
            found = _parts(key, count)
            if found is None:
                what = "UTF-8 text" if count == 1 else f"a JSON array of {count} texts or numbers"
                refused[index] = BadRecord(f"the key is not {what}", where=f"table {self._location.table}")
                found = [None] * count
            for column, part in zip(parts, found, strict=True):
                column.append(part)
        return parts, refused

    def _joined(self, parts: Sequence[str]) -> bytes:
        return (parts[0] if len(parts) == 1 else json.dumps(list(parts), separators=(",", ":"))).encode()


def _parts(key: bytes, count: int) -> list[str | None] | None:
    try:
        text = key.decode()
        values = [text] if count == 1 else json.loads(text, parse_float=str, parse_int=str)
        if not isinstance(values, list) or len(values) != count or not all(isinstance(v, str | bool) for v in values):
            return None
        parts = [str(value).lower() if isinstance(value, bool) else value for value in values]
        "".join(parts).encode()  # JSON can spell half of a character
    except (ValueError, RecursionError):  # of JSON that is nested too deeply
        return None
    return None if any("\0" in part for part in parts) else parts  # PostgreSQL cannot store this character


def _encoded(texts: Sequence[str | None]) -> tuple[bytes | None, ...]:
    return tuple(None if text is None else text.encode() for text in texts)

"""The SQL statements of one table. All values are sent as arrays of text, one per column; PostgreSQL casts them."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from stores.external.postgres.table import Column, PostgresLocation, PostgresTable, identifier

NOTES = "CREATE TABLE IF NOT EXISTS enrich_sync_notes (name text PRIMARY KEY, note text NOT NULL)"


class Statements:
    """SQL texts, made once. Parameters are in the order of `_source`: keys, columns, then those listed. If there is a
    column for releases, the releases follow the versions wherever these are parameters."""

    def __init__(self, table: PostgresTable, location: PostgresLocation) -> None:
        self.table = table
        self._version = identifier(location.version_column)
        self._deleted = None if location.deleted_column is None else identifier(location.deleted_column)
        self._release = None if location.release_column is None else identifier(location.release_column)
        self._own = [self._version] if self._release is None else [self._version, self._release]
        self._own_names = ["v"] if self._release is None else ["v", "r"]
        self._own_types = ["bigint"] * len(self._own)
        self.upsert = self._upsert_marked() if self._deleted is not None else self._upsert_unless_marked()
        self.forget_version = self._update_of_seen()
        self.delete = self._delete()
        self.spelled = self._spelled(table.columns, self._changed_value())
        self.spelled_keys = self._spelled(table.key, self._changed_key())
        self.changed = self._changed()
        self.taken = self._taken()
        self.fetch = self._fetch()
        self.scan = self._scan()
        self.any_row = self._any_row()

    def _upsert_marked(self) -> sql.Composed:
        """Parameters: keys, columns, versions, deleted. Marking a row as deleted leaves its columns unchanged."""
        deleted = self._deleted
        assert deleted is not None  # noqa: S101 - for mypy: the caller has just checked
        columns = [
            sql.SQL("{0} = CASE WHEN excluded.{1} THEN t.{0} ELSE excluded.{0} END").format(column.identifier, deleted)
            for column in self.table.columns
        ]
        return sql.SQL(
            "INSERT INTO {table} AS t ({names}) SELECT {values} FROM {source} "
            "ON CONFLICT ({key}) DO UPDATE SET {updates} WHERE t.{version} IS NULL OR {order} > {stored}"
        ).format(
            table=self.table.name,
            names=_listed([*self._identifiers(), *self._own, deleted]),
            values=_listed([*self._casts(), *map(_of_source, self._own_names), _of_source("d")]),
            source=self._source([*self._own_names, "d"], [*self._own_types, "boolean"]),
            key=_listed(column.identifier for column in self.table.key),
            updates=_listed([*columns, *map(self._excluded, self._own), self._excluded(deleted)]),
            version=self._version,
            order=self._order("excluded"),
            stored=self._order("t"),
        )

    def _upsert_unless_marked(self) -> sql.Composed:
        """Parameters: keys, columns, versions, raw keys, target."""
        columns = [self._excluded(column.identifier) for column in self.table.columns]
        return sql.SQL(
            "INSERT INTO {table} AS t ({names}) SELECT {values} FROM {source} WHERE NOT EXISTS ("
            "SELECT FROM enrich_sync_markers m WHERE m.target = %s AND m.key = s.raw AND {marked} >= {given}) "
            "ON CONFLICT ({key}) DO UPDATE SET {updates} WHERE t.{version} IS NULL OR {order} > {stored}"
        ).format(
            table=self.table.name,
            names=_listed([*self._identifiers(), *self._own]),
            values=_listed([*self._casts(), *map(_of_source, self._own_names)]),
            source=self._source([*self._own_names, "raw"], [*self._own_types, "bytea"]),
            marked=sql.SQL("m.version" if self._release is None else "(m.version, coalesce(m.release, 0))"),
            given=self._given(),
            key=_listed(column.identifier for column in self.table.key),
            updates=_listed([*columns, *map(self._excluded, self._own)]),
            version=self._version,
            order=self._order("excluded"),
            stored=self._order("t"),
        )

    def _order(self, row: str) -> sql.Composed:
        """What rows are ordered by: versions, and releases where versions are equal."""
        if self._release is None:
            return sql.SQL("{}.{}").format(sql.SQL(row), self._version)
        return sql.SQL("({row}.{}, coalesce({row}.{}, 0))").format(self._version, self._release, row=sql.SQL(row))

    def _given(self) -> sql.SQL:
        """The same of the parameters."""
        return sql.SQL("s.v" if self._release is None else "(s.v, s.r)")

    def _update_of_seen(self) -> sql.Composed:
        """Parameters: keys, seen versions. Sets the version to -1, so that any version may overwrite the row."""
        return sql.SQL(
            "UPDATE {table} AS t SET {version} = -1 FROM {source} WHERE {same} AND {stored} = {given}"
        ).format(
            table=self.table.name,
            version=self._version,
            source=self._keys_and_versions(),
            same=self._same_key(),
            stored=self._order("t"),
            given=self._given(),
        )

    def _keys_and_versions(self) -> sql.Composed:
        names = _names("k", self.table.key)
        return _unnest(names, ["text"] * len(names), self._own_names, self._own_types)

    def _delete(self) -> sql.Composed:
        """Parameters: keys, versions."""
        return sql.SQL(
            "DELETE FROM {table} AS t USING {source} WHERE {same} AND (t.{version} IS NULL OR {stored} < {given})"
        ).format(
            table=self.table.name,
            version=self._version,
            source=self._keys_and_versions(),
            same=self._same_key(),
            stored=self._order("t"),
            given=self._given(),
        )

    def _spelled(self, columns: Sequence[Column], changed: sql.Composable | None) -> sql.Composed:
        """Parameters: the columns. Returns for each row the column that would change it, if any, then the columns."""
        names = _names("k" if columns is self.table.key else "c", columns)
        return sql.SQL("SELECT {changed}{values} FROM {source} ORDER BY s.n").format(
            changed=sql.SQL("NULL") if changed is None else changed,
            values=sql.Composed(
                [
                    sql.SQL(", ({})::text").format(column.cast(_of_source(name)))
                    for name, column in zip(names, columns, strict=True)
                ]
            ),
            source=_unnest(names, ["text"] * len(names), ordinality=True),
        )

    def _changed(self) -> sql.Composed | None:
        """Parameters: keys, columns. Returns index and column of each row that a cast would change silently; None if no
        cast does that."""
        found = [each for each in (self._changed_key(), self._changed_value()) if each is not None]
        if not found:
            return None
        names = [*_names("k", self.table.key), *_names("c", self.table.columns)]
        return sql.SQL(
            "SELECT q.n - 1, q.changed FROM (SELECT s.n, coalesce({changed}) AS changed FROM {source}) AS q "
            "WHERE q.changed IS NOT NULL"
        ).format(
            changed=_listed(found),
            source=_unnest(names, ["text"] * len(names), ordinality=True),
        )

    def _changed_key(self) -> sql.Composed | None:
        """The index of the key column that would store another key, counted from -1 downwards."""
        tests = [column.keeps_key(_of_source(f"k{position}")) for position, column in enumerate(self.table.key)]
        return _first_false([(-1 - position, test) for position, test in enumerate(tests) if test is not None])

    def _changed_value(self) -> sql.Composed | None:
        """The index of the first column that would store another value."""
        tests = [column.keeps(_of_source(f"c{position}")) for position, column in enumerate(self.table.columns)]
        return _first_false([(position, test) for position, test in enumerate(tests) if test is not None])

    def _taken(self) -> sql.Composed | None:
        """Parameters: keys. Returns the indexes of keys whose row belongs to a key with another spelling that the
        columns treat as equal; None if the key columns distinguish all keys."""
        key = self.table.key
        if all(column.tells_keys_apart for column in key):
            return None
        names = _names("k", key)
        casts = [column.cast(_of_source(name)) for name, column in zip(names, key, strict=True)]
        spelled_otherwise = sql.SQL(" OR ").join(
            sql.SQL("t.{}::text <> ({})::text").format(column.identifier, cast)
            for column, cast in zip(key, casts, strict=True)
        )
        return sql.SQL(
            "WITH s AS (SELECT * FROM {source}) "
            "SELECT s.n - 1 FROM s JOIN {table} AS t ON {same} WHERE {otherwise} "
            "UNION SELECT q.n - 1 FROM (SELECT s.n, row_number() OVER (PARTITION BY {casts} ORDER BY s.n) AS place "
            "FROM s) AS q WHERE q.place > 1"
        ).format(
            source=_unnest(names, ["text"] * len(names), ordinality=True),
            table=self.table.name,
            same=self._same_key(),
            otherwise=spelled_otherwise,
            casts=_listed(casts),
        )

    def _fetch(self) -> sql.Composed:
        """Parameters: keys; for hard deletes also raw keys and target."""
        names = _names("k", self.table.key)
        more, version, release, marks = [], sql.SQL("t.{}").format(self._version), self._release_of_row(), sql.SQL("")
        if self._deleted is None:
            more, version = ["raw"], sql.SQL("coalesce(t.{}, m.version)").format(self._version)
            marks = sql.SQL(" LEFT JOIN enrich_sync_markers m ON m.key = s.raw AND m.target = %s")
            if self._release is not None:
                which = "CASE WHEN t.{} IS NULL THEN coalesce(m.release, 0) ELSE {} END"
                release = sql.SQL(which).format(self._version, release)
        return sql.SQL(
            "SELECT {living}, {version}, {release}{values} "
            "FROM {source} LEFT JOIN {table} AS t ON {same}{marks} ORDER BY s.n"
        ).format(
            living=self._living(),
            version=version,
            release=release,
            values=self._texts(self.table.columns),
            source=_unnest(names, ["text"] * len(names), more, ["bytea"] * len(more), ordinality=True),
            table=self.table.name,
            same=self._same_key(),
            marks=marks,
        )

    def _scan(self) -> sql.Composed:
        return sql.SQL("SELECT t.{version}, {release}{keys}{values} FROM {table} AS t WHERE {living}").format(
            version=self._version,
            release=self._release_of_row(),
            keys=self._texts(self.table.key),
            values=self._texts(self.table.columns),
            table=self.table.name,
            living=self._living(),
        )

    def _release_of_row(self) -> sql.Composable:
        return sql.SQL("0") if self._release is None else sql.SQL("coalesce(t.{}, 0)").format(self._release)

    def _any_row(self) -> sql.Composed:
        """Parameters: for hard deletes the target."""
        rows = sql.SQL("EXISTS (SELECT FROM {})").format(self.table.name)
        marks = "" if self._deleted is not None else " OR EXISTS (SELECT FROM enrich_sync_markers WHERE target = %s)"
        return sql.SQL("SELECT {}{}").format(rows, sql.SQL(marks))

    def _living(self) -> sql.Composable:
        exists = sql.SQL("t.{} IS NOT NULL").format(self.table.key[0].identifier)
        if self._deleted is None:
            return exists
        return sql.SQL("({} AND t.{} IS NOT TRUE)").format(exists, self._deleted)

    def _texts(self, columns: Sequence[Column]) -> sql.Composed:
        return sql.Composed([sql.SQL(", t.{}::text").format(column.identifier) for column in columns])

    def _identifiers(self) -> list[sql.Identifier]:
        return [column.identifier for column in (*self.table.key, *self.table.columns)]

    def _casts(self) -> list[sql.Composable]:
        keys = zip(_names("k", self.table.key), self.table.key, strict=True)
        columns = zip(_names("c", self.table.columns), self.table.columns, strict=True)
        return [column.cast(_of_source(name)) for name, column in (*keys, *columns)]

    def _source(self, more: Sequence[str], types: Sequence[str]) -> sql.Composed:
        names = [*_names("k", self.table.key), *_names("c", self.table.columns)]
        return _unnest(names, ["text"] * len(names), more, types)

    def _same_key(self) -> sql.Composable:
        pairs = zip(_names("k", self.table.key), self.table.key, strict=True)
        return sql.SQL(" AND ").join(
            sql.SQL("t.{} = {}").format(column.identifier, column.cast(_of_source(name))) for name, column in pairs
        )

    def _excluded(self, column: sql.Identifier) -> sql.Composed:
        return sql.SQL("{0} = excluded.{0}").format(column)


def array_literal(texts: pa.Array) -> str:
    """A column as the text of a PostgreSQL array: a single value for the driver, however many rows there are."""
    if pa.types.is_binary(texts.type):
        hexed = [None if value is None else f"\\x{value.hex()}" for value in texts.to_pylist()]
        texts = pa.array(hexed, pa.string())
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    quoted = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(quoted)], pa.int32()), quoted), ",")
    return f"{{{joined[0].as_py()}}}"


def _first_false(tests: Sequence[tuple[int, sql.Composable]]) -> sql.Composed | None:
    """The number of the first test that is false; null if none is."""
    if not tests:
        return None
    cases = [sql.SQL("WHEN NOT ({}) THEN {}").format(test, sql.Literal(number)) for number, test in tests]
    return sql.SQL("CASE {} END").format(sql.SQL(" ").join(cases))


def _names(prefix: str, columns: Sequence[Column]) -> list[str]:
    return [f"{prefix}{index}" for index in range(len(columns))]


def _of_source(name: str) -> sql.Composed:
    return sql.SQL("s.{}").format(sql.Identifier(name))


def _unnest(
    names: Sequence[str],
    types: Sequence[str],
    more: Sequence[str] = (),
    more_types: Sequence[str] = (),
    *,
    ordinality: bool = False,
) -> sql.Composed:
    arrays = sql.SQL(", ").join(sql.SQL(f"%s::{kind}[]") for kind in (*types, *more_types))
    columns = [sql.Identifier(name) for name in (*names, *more, *(["n"] if ordinality else []))]
    with_ = sql.SQL(" WITH ORDINALITY" if ordinality else "")
    return sql.SQL("unnest({}){} AS s({})").format(arrays, with_, _listed(columns))


def _listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)

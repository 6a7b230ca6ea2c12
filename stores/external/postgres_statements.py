"""The statements of one table. All values travel as arrays of text, one a column, and PostgreSQL casts them."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from stores.external.postgres_table import Column, PostgresPlace, PostgresTable

MARKERS = """
CREATE TABLE IF NOT EXISTS enrich_sync_markers (
    target text NOT NULL, key bytea NOT NULL, version bigint NOT NULL, expires timestamptz NOT NULL,
    PRIMARY KEY (target, key))
"""
NOTES = "CREATE TABLE IF NOT EXISTS enrich_sync_notes (name text PRIMARY KEY, note text NOT NULL)"


class Statements:
    """Text of SQL, made once. Parameters stand in the order of `source`: keys, columns, then what is named."""

    def __init__(self, table: PostgresTable, place: PostgresPlace) -> None:
        self._table = table
        self._version = sql.Identifier(place.version_column)
        self._deleted = None if place.deleted_column is None else sql.Identifier(place.deleted_column)
        self.upsert = self._upsert_marked() if self._deleted is not None else self._upsert_unless_marked()
        self.forget_version = self._update_of_seen()
        self.delete = self._delete()
        self.spelled = self._spelled(table.columns)
        self.spelled_keys = self._spelled(table.key)
        self.fetch = self._fetch()
        self.scan = self._scan()

    def _upsert_marked(self) -> sql.Composed:
        """Parameters: keys, columns, versions, deleted. A mark leaves the columns as they were."""
        deleted = self._deleted
        assert deleted is not None  # noqa: S101 - for mypy: the caller has just looked
        columns = [
            sql.SQL("{0} = CASE WHEN excluded.{1} THEN t.{0} ELSE excluded.{0} END").format(column.identifier, deleted)
            for column in self._table.columns
        ]
        return sql.SQL(
            "INSERT INTO {table} AS t ({names}) SELECT {values}, s.v, s.d FROM {source} "
            "ON CONFLICT ({key}) DO UPDATE SET {updates} WHERE t.{version} IS NULL OR excluded.{version} > t.{version}"
        ).format(
            table=self._table.name,
            names=_listed([*self._identifiers(), self._version, deleted]),
            values=_listed(self._casts()),
            source=self._source(["v", "d"], ["bigint", "boolean"]),
            key=_listed(column.identifier for column in self._table.key),
            updates=_listed([*columns, self._excluded(self._version), self._excluded(deleted)]),
            version=self._version,
        )

    def _upsert_unless_marked(self) -> sql.Composed:
        """Parameters: keys, columns, versions, raw keys, target."""
        columns = [self._excluded(column.identifier) for column in self._table.columns]
        return sql.SQL(
            "INSERT INTO {table} AS t ({names}) SELECT {values}, s.v FROM {source} WHERE NOT EXISTS ("
            "SELECT FROM enrich_sync_markers m WHERE m.target = %s AND m.key = s.raw AND m.version >= s.v) "
            "ON CONFLICT ({key}) DO UPDATE SET {updates} WHERE t.{version} IS NULL OR excluded.{version} > t.{version}"
        ).format(
            table=self._table.name,
            names=_listed([*self._identifiers(), self._version]),
            values=_listed(self._casts()),
            source=self._source(["v", "raw"], ["bigint", "bytea"]),
            key=_listed(column.identifier for column in self._table.key),
            updates=_listed([*columns, self._excluded(self._version)]),
            version=self._version,
        )

    def _update_of_seen(self) -> sql.Composed:
        """Parameters: keys, seen versions. A row without a version takes any."""
        return sql.SQL(
            "UPDATE {table} AS t SET {version} = -1 FROM {source} WHERE {same} AND t.{version} = s.v"
        ).format(
            table=self._table.name,
            version=self._version,
            source=_unnest(_names("k", self._table.key), ["text"] * len(self._table.key), ["v"], ["bigint"]),
            same=self._same_key(),
        )

    def _delete(self) -> sql.Composed:
        """Parameters: keys, versions."""
        return sql.SQL(
            "DELETE FROM {table} AS t USING {source} WHERE {same} AND (t.{version} IS NULL OR t.{version} < s.v)"
        ).format(
            table=self._table.name,
            version=self._version,
            source=_unnest(_names("k", self._table.key), ["text"] * len(self._table.key), ["v"], ["bigint"]),
            same=self._same_key(),
        )

    def _spelled(self, columns: Sequence[Column]) -> sql.Composed:
        """Parameters: the columns."""
        names = _names("c", columns)
        return sql.SQL("SELECT {values} FROM {source} ORDER BY s.n").format(
            values=_listed(
                sql.SQL("({})::text").format(column.cast(_of_source(name)))
                for name, column in zip(names, columns, strict=True)
            ),
            source=_unnest(names, ["text"] * len(names), ordinality=True),
        )

    def _fetch(self) -> sql.Composed:
        """Parameters: keys; for hard deletes also raw keys and target."""
        names = _names("k", self._table.key)
        more, version, marks = ([], sql.SQL("t.{}").format(self._version), sql.SQL(""))
        if self._deleted is None:
            more, version = ["raw"], sql.SQL("coalesce(t.{}, m.version)").format(self._version)
            marks = sql.SQL(" LEFT JOIN enrich_sync_markers m ON m.key = s.raw AND m.target = %s")
        return sql.SQL(
            "SELECT {living}, {version}{values} FROM {source} LEFT JOIN {table} AS t ON {same}{marks} ORDER BY s.n"
        ).format(
            living=self._living(),
            version=version,
            values=self._texts(self._table.columns),
            source=_unnest(names, ["text"] * len(names), more, ["bytea"] * len(more), ordinality=True),
            table=self._table.name,
            same=self._same_key(),
            marks=marks,
        )

    def _scan(self) -> sql.Composed:
        return sql.SQL("SELECT t.{version}{keys}{values} FROM {table} AS t WHERE {living}").format(
            version=self._version,
            keys=self._texts(self._table.key),
            values=self._texts(self._table.columns),
            table=self._table.name,
            living=self._living(),
        )

    def _living(self) -> sql.Composable:
        exists = sql.SQL("t.{} IS NOT NULL").format(self._table.key[0].identifier)
        if self._deleted is None:
            return exists
        return sql.SQL("({} AND t.{} IS NOT TRUE)").format(exists, self._deleted)

    def _texts(self, columns: Sequence[Column]) -> sql.Composed:
        return sql.Composed([sql.SQL(", t.{}::text").format(column.identifier) for column in columns])

    def _identifiers(self) -> list[sql.Identifier]:
        return [column.identifier for column in (*self._table.key, *self._table.columns)]

    def _casts(self) -> list[sql.Composable]:
        keys = zip(_names("k", self._table.key), self._table.key, strict=True)
        columns = zip(_names("c", self._table.columns), self._table.columns, strict=True)
        return [column.cast(_of_source(name)) for name, column in (*keys, *columns)]

    def _source(self, more: Sequence[str], types: Sequence[str]) -> sql.Composed:
        names = [*_names("k", self._table.key), *_names("c", self._table.columns)]
        return _unnest(names, ["text"] * len(names), more, types)

    def _same_key(self) -> sql.Composable:
        pairs = zip(_names("k", self._table.key), self._table.key, strict=True)
        return sql.SQL(" AND ").join(
            sql.SQL("t.{} = {}").format(column.identifier, column.cast(_of_source(name))) for name, column in pairs
        )

    def _excluded(self, column: sql.Identifier) -> sql.Composed:
        return sql.SQL("{0} = excluded.{0}").format(column)


def array_literal(texts: pa.Array) -> str:
    """A column as the text of a PostgreSQL array: one value for the driver, however many rows."""
    if pa.types.is_binary(texts.type):
        hexed = [None if value is None else f"\\x{value.hex()}" for value in texts.to_pylist()]
        texts = pa.array(hexed, pa.string())
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    quoted = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(quoted)], pa.int32()), quoted), ",")
    return f"{{{joined[0].as_py()}}}"


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

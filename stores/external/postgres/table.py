"""The table that a route writes to, as PostgreSQL's catalog describes it, and whether it can hold the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg import sql

from stores.errors import ConfigError
from stores.external.postgres.casts import keeping, tells_apart

# Resolves domains and arrays to the base type whose values are stored.
_COLUMNS = """
WITH RECURSIVE beneath(number, type, modifier, depth) AS (
    SELECT a.attnum, a.atttypid, a.atttypmod, 0 FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT b.number, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END,
           CASE WHEN t.typtype = 'd' AND t.typtypmod >= 0 THEN t.typtypmod ELSE b.modifier END, b.depth + 1
    FROM beneath b JOIN pg_catalog.pg_type t ON t.oid = b.type
    WHERE t.typtype = 'd' OR (t.typcategory = 'A' AND t.typelem <> 0)
), kept AS (SELECT DISTINCT ON (number) number, type, modifier FROM beneath ORDER BY number, depth DESC)
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '', t.typcategory = 'A', i.typname, i.typtype::text, k.modifier >= 0,
       pg_catalog.format_type(k.type, k.modifier),
       coalesce((to_jsonb(c) ->> 'collisdeterministic')::boolean, true)
FROM kept k
JOIN pg_catalog.pg_attribute a ON a.attrelid = %s::regclass AND a.attnum = k.number
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_type i ON i.oid = k.type
LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
ORDER BY k.number
"""
_UNIQUE = """
SELECT array_agg(a.attname::text), i.indimmediate
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid
     AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indimmediate
"""
_TELLS_NAMES_TWICE_SINCE = 160_000
_RIGHTS = "SELECT r FROM unnest(%s::text[]) r WHERE NOT has_table_privilege(%s::regclass, r)"


@dataclass(frozen=True)
class PostgresLocation:
    """Which table holds the rows, and what its columns mean."""

    table: str
    key: Sequence[str]
    columns: Mapping[str, str]
    """Column of the table -> column of the row."""
    version_column: str = "version"
    deleted_column: str | None = "deleted"
    """None: deleted rows are removed from the table."""
    marker_ms: int = 86_400_000
    """How long a removed key is remembered."""
    release_column: str | None = None
    """None: releases are not compared, and need no column."""

    @property
    def own_columns(self) -> Sequence[str]:
        """Those beside the rows' own."""
        names = (self.version_column, self.release_column, self.deleted_column)
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    type: str
    not_null: bool
    has_default: bool
    generated: bool
    is_array: bool
    kept: str
    """The name of the base type beneath domains and arrays."""
    kept_kind: str
    """PostgreSQL's typtype: b for base types, e for enums, and others."""
    is_bounded: bool
    """Whether the base type has a length, precision or scale."""
    kept_type: str
    """The base type in SQL, with its bounds."""
    is_deterministic: bool
    """Whether the collation is deterministic: texts with different spellings differ."""
    tells_names_twice: bool = True
    """Whether the server can detect that a JSON text has a name twice."""

    @property
    def identifier(self) -> sql.Identifier:
        return identifier(self.name)

    def cast(self, text: sql.Composable) -> sql.Composable:
        """An expression that converts our text to the column's type."""
        if self.is_array:  # our text is JSON, which differs from PostgreSQL's own array syntax
            template = "CASE WHEN {0} IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text({0}::jsonb))::{1} END"
        else:
            template = "{0}::{1}"
        return sql.SQL(template).format(text, sql.SQL(escaped(self.type)))

    def keeps(self, text: sql.Composable) -> sql.Composable | None:
        """An expression that is false if the cast would change the value silently. None: it never does."""
        test = keeping(self.kept, is_bounded=self.is_bounded)
        if test is None or (self.kept == "jsonb" and not self.tells_names_twice):
            return None
        kept_type = sql.SQL(escaped(self.kept_type))
        if not self.is_array:
            return sql.SQL(test).format(text, kept_type)
        of_one = sql.SQL(test).format(sql.SQL("e.one"), kept_type)
        template = "NOT EXISTS (SELECT FROM jsonb_array_elements_text({0}::jsonb) AS e(one) WHERE NOT ({1}))"
        return sql.SQL(template).format(text, of_one)

    def keeps_key(self, text: sql.Composable) -> sql.Composable | None:
        """An expression that is false if the column would store another key, for example `1` instead of `01`."""
        if not self.is_array and self.kept in ("text", "varchar", "citext") and not self.is_bounded:
            return None
        template = "{0} = array_to_json({1})::text" if self.is_array else "{0} = ({1})::text"
        return sql.SQL(template).format(text, self.cast(text))

    @property
    def tells_keys_apart(self) -> bool:
        """Whether the column treats keys with different spellings as different."""
        return self.is_deterministic and tells_apart(self.kept, self.kept_kind, is_bounded=self.is_bounded)


@dataclass(frozen=True)
class PostgresTable:
    """What `Statements` needs to know about the table."""

    name: sql.Composable
    key: Sequence[Column]
    columns: Sequence[Column]
    """In the order of the location's columns."""


def identifier(name: str) -> sql.Identifier:
    """An identifier for statements with parameters."""
    return sql.Identifier(escaped(name))


def escaped(text: str) -> str:
    """Escapes `%`: the driver looks for its placeholders in names and types too."""
    return text.replace("%", "%%")


def read_table(connection: Any, location: PostgresLocation, where: str | None = None) -> PostgresTable:
    """`where` appears in errors. Raises ConfigError with all reasons why the table cannot hold the rows."""
    (name,) = connection.execute("SELECT to_regclass(%s)::text", [location.table]).fetchone()
    if name is None:
        raise ConfigError(
            f"there is no table {location.table}", where=where, next_step="create it, or correct the name"
        )
    known = {row[0]: Column(*row) for row in connection.execute(_COLUMNS, [name, name])}
    if connection.info.server_version < _TELLS_NAMES_TWICE_SINCE:  # older servers cannot detect them
        known = {each: replace(column, tells_names_twice=False) for each, column in known.items()}
    wanted = [*location.key, *location.columns, *location.own_columns]
    missing = [column for column in wanted if column not in known]
    if missing == [location.release_column]:
        raise ConfigError(
            f"the table {location.table} has no column {missing[0]}, which keeps the releases of its rows",
            where=where,
            next_step=f"add it: {_added(connection, name, location.release_column)}; or name another one by "
            "release_column",
        )
    if missing:
        raise ConfigError(
            f"the table {location.table} has no column {', '.join(missing)}",
            where=where,
            next_step=f"add it, or name others of its columns: {', '.join(known)}",
        )
    problems = [*_column_problems(known, location), *_table_problems(connection, name, location)]
    if problems:
        raise ConfigError(
            f"the table {location.table} cannot hold the rows: {'; '.join(problems)}",
            where=where,
            next_step="alter the table, grant the rights, or name another",
        )
    return PostgresTable(
        sql.SQL(escaped(name)),
        [known[column] for column in location.key],
        [known[column] for column in location.columns],
    )


def _added(connection: Any, table: str, column: str | None) -> str:
    """The statement that adds a column of numbers. It takes no time, however large the table is."""
    statement = "SELECT format('ALTER TABLE %%s ADD COLUMN %%I bigint', %s::text, %s::text)"
    return str(connection.execute(statement, [table, column]).fetchone()[0])


def _column_problems(known: Mapping[str, Column], location: PostgresLocation) -> list[str]:
    problems = [
        f"{name} is {known[name].type} and has to be bigint"
        for name in (location.version_column, location.release_column)
        if name is not None and known[name].type != "bigint"
    ]
    if location.deleted_column is not None and known[location.deleted_column].type != "boolean":
        problems.append(f"{location.deleted_column} is {known[location.deleted_column].type} and has to be boolean")
    filled = {*location.key, *location.columns, *location.own_columns}
    for column in known.values():
        if column.name in filled:
            if column.generated:
                problems.append(f"{column.name} is generated and cannot be written")
            elif column.not_null and column.name in location.columns and location.deleted_column is not None:
                problems.append(
                    f"{column.name} is NOT NULL, and the mark of a deleted key has no value for it: "
                    "drop NOT NULL, or use delete: hard"
                )
        elif column.not_null and not column.has_default:
            problems.append(f"nothing fills {column.name}, which is NOT NULL and has no default")
    return problems


def _table_problems(connection: Any, name: str, location: PostgresLocation) -> list[str]:
    unique = [(set(columns), immediate) for columns, immediate in connection.execute(_UNIQUE, [name])]
    problems = []
    if (set(location.key), True) in unique:
        pass
    elif (set(location.key), False) in unique:
        problems.append(
            f"its primary key or unique constraint on ({', '.join(location.key)}) is deferrable, "
            "by which PostgreSQL finds no row to update"
        )
    else:
        problems.append(f"it has no primary key or unique constraint on ({', '.join(location.key)})")
    rights = ["SELECT", "INSERT", "UPDATE"] + (["DELETE"] if location.deleted_column is None else [])
    lacking = [row[0] for row in connection.execute(_RIGHTS, [rights, name])]
    if lacking:
        problems.append(f"this user lacks the right to {', '.join(lacking)}")
    return problems

"""The table that a route writes to, as PostgreSQL's catalog describes it, and whether it can hold the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from stores.errors import ConfigError

_COLUMNS = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '', t.typcategory = 'A'
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""
_UNIQUE = """
SELECT array_agg(a.attname::text)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid
     AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""
_RIGHTS = "SELECT r FROM unnest(%s::text[]) r WHERE NOT has_table_privilege(%s::regclass, r)"


@dataclass(frozen=True)
class PostgresPlace:
    """Which table holds the rows, and what its columns mean."""

    table: str
    key: Sequence[str]
    columns: Mapping[str, str]
    """Column of the table -> column of the row."""
    version_column: str = "version"
    deleted_column: str | None = "deleted"
    """None: deleted rows are removed."""
    marker_ms: int = 86_400_000
    """How long a removed key is remembered."""


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    type: str
    not_null: bool
    has_default: bool
    generated: bool
    is_array: bool

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.name)

    def cast(self, text: sql.Composable) -> sql.Composable:
        """An expression that makes of our text what the column holds."""
        if self.is_array:  # our text is JSON, and PostgreSQL writes its arrays in another way
            template = "CASE WHEN {0} IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text({0}::jsonb))::{1} END"
        else:
            template = "{0}::{1}"
        return sql.SQL(template).format(text, sql.SQL(self.type))


@dataclass(frozen=True)
class PostgresTable:
    """What is needed to write the statements."""

    name: sql.Composable
    key: Sequence[Column]
    columns: Sequence[Column]
    """In the order of the place's columns."""


def read_table(connection: Any, place: PostgresPlace, where: str | None = None) -> PostgresTable:
    """`where` is told in errors. Raises ConfigError with all that keeps the table from holding the rows."""
    (name,) = connection.execute("SELECT to_regclass(%s)::text", [place.table]).fetchone()
    if name is None:
        raise ConfigError(f"there is no table {place.table}", where=where, next_step="create it, or correct the name")
    known = {row[0]: Column(*row) for row in connection.execute(_COLUMNS, [name])}
    wanted = [*place.key, *place.columns, place.version_column]
    wanted += [] if place.deleted_column is None else [place.deleted_column]
    missing = [column for column in wanted if column not in known]
    if missing:
        raise ConfigError(
            f"the table {place.table} has no column {', '.join(missing)}",
            where=where,
            next_step=f"add it, or name others of its columns: {', '.join(known)}",
        )
    problems = [*_column_problems(known, place), *_table_problems(connection, name, place)]
    if problems:
        raise ConfigError(
            f"the table {place.table} cannot hold the rows: {'; '.join(problems)}",
            where=where,
            next_step="alter the table, grant the rights, or name another",
        )
    return PostgresTable(
        sql.SQL(name),
        [known[column] for column in place.key],
        [known[column] for column in place.columns],
    )


def _column_problems(known: Mapping[str, Column], place: PostgresPlace) -> list[str]:
    problems = []
    if known[place.version_column].type != "bigint":
        problems.append(f"{place.version_column} is {known[place.version_column].type} and has to be bigint")
    if place.deleted_column is not None and known[place.deleted_column].type != "boolean":
        problems.append(f"{place.deleted_column} is {known[place.deleted_column].type} and has to be boolean")
    filled = {*place.key, *place.columns, place.version_column, place.deleted_column}
    for column in known.values():
        if column.name in filled:
            if column.generated:
                problems.append(f"{column.name} is generated and cannot be written")
            elif column.not_null and column.name in place.columns and place.deleted_column is not None:
                problems.append(
                    f"{column.name} is NOT NULL, and the mark of a deleted key has no value for it: "
                    "drop NOT NULL, or use delete: hard"
                )
        elif column.not_null and not column.has_default:
            problems.append(f"nothing fills {column.name}, which is NOT NULL and has no default")
    return problems


def _table_problems(connection: Any, name: str, place: PostgresPlace) -> list[str]:
    unique = [set(row[0]) for row in connection.execute(_UNIQUE, [name])]
    problems = []
    if set(place.key) not in unique:
        problems.append(f"it has no primary key or unique constraint on ({', '.join(place.key)})")
    rights = ["SELECT", "INSERT", "UPDATE"] + (["DELETE"] if place.deleted_column is None else [])
    lacking = [row[0] for row in connection.execute(_RIGHTS, [rights, name])]
    if lacking:
        problems.append(f"this user lacks the right to {', '.join(lacking)}")
    return problems

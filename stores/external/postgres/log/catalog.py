"""Which tables there are that patterns name, and whether the log can tell what happens to each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from psycopg import sql

from stores.errors import ConfigError
from stores.external.postgres.log.messages import ColumnSent
from stores.external.postgres.log.slots import STORAGE, Slots, Storage, Table, storage_of


@dataclass(frozen=True, slots=True)
class TableFound:
    """A table as the catalog has it now."""

    table: Table
    schema: str
    name: str
    key: tuple[str, ...]
    """The columns of its primary key, else of another unique key without nulls. Empty: it has none."""
    columns: tuple[ColumnSent, ...]
    storage: Storage
    is_named: bool
    """By one of the patterns."""
    is_published: bool
    is_added: bool
    """To the publication by its name: not as one of all tables, or of a schema."""
    trouble: ConfigError | None
    """Why it cannot be followed, and what mends it."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class _Index:
    columns: tuple[str, ...]
    is_primary: bool
    is_identity: bool


class Catalog:
    """Of one database, by the connection of its slot."""

    def __init__(self, slots: Slots, patterns: Sequence[str]) -> None:
        self._slots = slots
        self._patterns = tuple(patterns)

    def tables(self) -> list[TableFound]:
        """Those that match a pattern, and others that are in the publication by their names."""
        return list(self._found())

    def _found(self) -> Iterator[TableFound]:
        slots = self._slots
        statement = _TABLES.format(
            is_sent=slots.is_sent, is_published=slots.is_published, has_condition=slots.has_condition, storage=STORAGE
        )
        for row in slots.rows(statement, *[slots.name] * statement.count("%s")):
            number, schema, name, quoted, identity, kind, may_read, columns, generated, indexes, *rest = row
            published, has_condition, partitions, files, added = rest
            is_named = any(fnmatchcase(f"{schema}.{name}", pattern) for pattern in self._patterns)
            if not (is_named or added):
                continue
            unique = [_Index(tuple(of), primary, chosen) for of, primary, chosen in indexes or ()]
            told = _told(identity, [column for column, *_ in columns or ()], unique)
            key = _key(unique, told)
            table = Table(number, quoted, told, frozenset(generated))
            trouble = _trouble(table, key, told, unique, is_logged=kind == "p", may_read=may_read)
            trouble = trouble or (slots.of_condition(table) if has_condition else None)
            sent = tuple(ColumnSent(*column) for column in columns or ())
            storage = storage_of(partitions, files)
            yield TableFound(table, schema, name, key, sent, storage, is_named, published, added, trouble)


def _told(identity: str, columns: Sequence[str], unique: Sequence[_Index]) -> frozenset[str]:
    """The columns that the log has of deleted rows."""
    if identity == "f":
        return frozenset(columns)
    chosen = [index for index in unique if (index.is_primary if identity == "d" else index.is_identity)]
    return frozenset(chosen[0].columns) if identity in "di" and chosen else frozenset()


def _key(unique: Sequence[_Index], told: frozenset[str]) -> tuple[str, ...]:
    primary = [index.columns for index in unique if index.is_primary]
    usable = [index.columns for index in unique if told.issuperset(index.columns)]
    return next(iter([*primary, *usable]), ())


def _trouble(
    table: Table,
    key: tuple[str, ...],
    told: frozenset[str],
    unique: Sequence[_Index],
    *,
    is_logged: bool,
    may_read: bool,
) -> ConfigError | None:
    def of(what: str, mends: str) -> ConfigError:
        return ConfigError(what, where=f"table {table.name}", next_step=mends)

    if not is_logged:
        return of("the table is unlogged", f"ALTER TABLE {table.name} SET LOGGED;")
    if not may_read:
        return of("this user may not read it", f"GRANT SELECT ON {table.name} TO {_USER}; with USAGE on its schema")
    if not key and unique:
        first = ", ".join(sql.Identifier(column).as_string(None) for column in unique[0].columns)
        return of("it has no primary key", f"ALTER TABLE {table.name} REPLICA IDENTITY FULL; or a key of ({first})")
    if not key:
        return of(
            "it has no primary key, and no other unique key without nulls",
            f"ALTER TABLE {table.name} ADD PRIMARY KEY (...);",
        )
    if not told.issuperset(key):
        return of(
            f"the log does not have the key column {', '.join(c for c in key if c not in told)} of deleted rows",
            f"ALTER TABLE {table.name} REPLICA IDENTITY DEFAULT; or FULL",
        )
    return None


_USER = "the user of the dsn"

# Partitions are in the log as their root. It opens no table: one that somebody locks would hold all of it up.
_TABLES = """
    SELECT c.oid::bigint, n.nspname::text, c.relname::text, format('%%I.%%I', n.nspname, c.relname),
        c.relreplident::text, c.relpersistence::text,
        has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
        (SELECT jsonb_agg(jsonb_build_array(a.attname, a.atttypid::bigint, a.atttypmod) ORDER BY a.attnum)
            FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND {is_sent}),
        array(SELECT a.attname::text FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''),
        (SELECT jsonb_agg(jsonb_build_array(u.columns, u.indisprimary, u.indisreplident)
                ORDER BY u.indisreplident DESC, u.indexrelid)
            FROM (SELECT i.indexrelid, i.indisprimary, i.indisreplident,
                    jsonb_agg(a.attname ORDER BY k.place) AS columns
                FROM pg_index i
                CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
                JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
                WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid
                    AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
                GROUP BY i.indexrelid, i.indisprimary, i.indisreplident
                HAVING bool_and(a.attnotnull)) u),
        {is_published}, {has_condition}, {storage},
        EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
            WHERE p.pubname = %s AND r.prrelid = c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
        AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%'
    ORDER BY n.nspname, c.relname
"""

"""What a database needs so that its log can be followed: publication and slot. Made if this user may, and checked."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import errors, pq, sql

from stores.errors import ConfigError
from stores.external.postgres.log.literals import Kind, kinds_of
from stores.external.postgres.log.messages import ColumnSent
from stores.external.postgres.log.stream import lsn_number
from stores.external.postgres.session import LIMITS_TRANSACTIONS_SINCE, PostgresSession
from stores.external.postgres.waiting import arrived

_LOCK_S = 1.0
_MAKING_S = 86_400.0
_LOOK_EVERY_S = 0.05
_OLDEST, _SCHEMAS_SINCE, _PARTS_SINCE, _FAILOVER_SINCE = 140_000, 150_000, 150_000, 170_000
_MAY_LOG_RUNNING = (  # PostgreSQL 16 and later; a right that can be granted
    "SELECT to_regprocedure('pg_log_standby_snapshot()') IS NOT NULL "
    "AND has_function_privilege(to_regprocedure('pg_log_standby_snapshot()'), 'EXECUTE')"
)
_PUBLISHES = "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s"
# Of all tables, or of those of a schema, partitions are published as their root.
_IS_PUBLISHED = """EXISTS (
    SELECT FROM pg_publication p WHERE p.pubname = %s AND (c.relkind = 'r' OR p.pubviaroot)
        AND (EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
            OR ((p.puballtables{}) AND NOT (c.relispartition AND p.pubviaroot))))"""
_OF_SCHEMA = (
    " OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"
)
# A publication may name the columns that the log has of a table. Others are left out.
_IS_SENT = """NOT EXISTS (
    SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
    WHERE p.pubname = %s AND r.prrelid = a.attrelid AND NOT a.attnum = ANY (r.prattrs::int2[]))"""
# Or a condition for its rows.
_HAS_CONDITION = """EXISTS (
    SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
    WHERE p.pubname = %s AND r.prrelid = c.oid AND r.prqual IS NOT NULL)"""
# Its partitions, if it has any. No function of the server's that opens them: somebody may have locked one.
_PARTITIONS = """(
    WITH RECURSIVE part(id) AS (SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid AND NOT inhdetachpending
        UNION ALL SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.id AND NOT i.inhdetachpending)
    SELECT string_agg(({})::text, ' ' ORDER BY f.oid) FROM part JOIN pg_class f ON f.oid = part.id
    WHERE c.relkind = 'p')"""
_COLUMNS_MADE = """(SELECT string_agg(a.attnum::text, ' ' ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')"""
STORAGE = (
    f"md5({_PARTITIONS.format('f.oid')}), "
    f"md5(concat_ws('/', {_COLUMNS_MADE}, c.relfilenode, {_PARTITIONS.format('f.relfilenode')}))"
)
"""Two expressions about `c`, a row of pg_class: a `Storage`."""
PREFIX = "enrich"
"""Of our messages in the log."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot as it is now."""

    confirmed: int
    """0: it is being made at this moment."""
    is_lost: bool
    """PostgreSQL has removed what it had to keep: max_slot_wal_keep_size."""
    held_bytes: int
    """How much of its log PostgreSQL keeps for this slot."""


class Storage(NamedTuple):
    """Digests of what a table is made of. Where it changes rows may have changed without a word in the log."""

    partitions: str = ""
    """Which ones there are."""
    files: str = ""
    """In which files its rows are, and which columns were made when: others after a rewrite, a TRUNCATE of a partition,
    or if a column was dropped and made again."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalog describes it."""

    id: int
    name: str
    """As SQL needs it."""
    identity: frozenset[str]
    """The columns that the log has of deleted rows."""
    generated: frozenset[str]
    """Columns that the log does not have."""


class Slots:
    """Publication and slot have one name. For one thread; a broken connection is opened again.

    No call but `make` waits for long: of many tables one may be locked, and the others are followed by the same thread.
    """

    def __init__(self, dsn: str, name: str, *, deadline_s: float = 30.0) -> None:
        self.name = name
        self._session = PostgresSession(dsn, deadline_s, lock_s=_LOCK_S)
        self._where = self._session.where
        self._version: int | None = None
        self._may_log_running: bool | None = None

    def close(self) -> None:
        self._session.close()

    def require_settings(self) -> None:
        """Raises ConfigError, with what mends it, if the server or this user's rights do not allow it."""
        version, level, user, may = self._row(
            "SELECT current_setting('server_version_num')::int, current_setting('wal_level'), current_user::text, "
            "rolreplication OR rolsuper OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' "
            "AND pg_has_role(r.oid, 'member')) FROM pg_roles WHERE rolname = current_user"
        )
        if version < _OLDEST:
            raise ConfigError("follow: log needs PostgreSQL 14 or later", where=self._where)
        if level != "logical":
            raise ConfigError(
                f"wal_level is {level}: the log does not have the rows",
                where=self._where,
                next_step="ALTER SYSTEM SET wal_level = logical; then restart PostgreSQL",
            )
        if not may:
            raise ConfigError(
                f"the user {user} may not read the log",
                where=self._where,
                next_step=f"ALTER ROLE {sql.Identifier(user).as_string(None)} REPLICATION",
            )

    def table(self, name: str, key: Sequence[str]) -> Table:
        """Raises ConfigError if the log does not tell which rows are deleted."""
        found = self._all(
            "SELECT c.oid::bigint, c.oid::regclass::text, c.relkind::text, c.relreplident::text, "
            "array(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped), "
            "array(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "  AND a.attnum = ANY (i.indkey::int2[]) WHERE i.indrelid = c.oid AND "
            "  (CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)), "
            "array(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attgenerated <> '') "
            "FROM pg_class c WHERE c.oid = to_regclass(%s)",
            name,
        )
        if not found:
            raise ConfigError(
                "there is no such table, or this user may not see it",
                where=f"table {name}",
                next_step="correct its name, with its schema if need be: schema.table",
            )
        number, quoted, kind, identity, columns, indexed, generated = found[0]
        if kind not in "rp":
            raise ConfigError("only tables are in the log, no views", where=f"table {name}", next_step="name a table")
        told = frozenset(columns if identity == "f" else indexed)
        missing = [column for column in key if column not in told]
        if missing:
            raise ConfigError(
                f"the log does not have the key column {', '.join(missing)} of deleted rows",
                where=f"table {name}",
                next_step=f"ALTER TABLE {quoted} REPLICA IDENTITY FULL, or take the columns of its primary key as key",
            )
        return Table(number, quoted, told, frozenset(generated))

    def relation(self, name: str) -> int | None:
        """The id of the table that is called so now."""
        (number,) = self._row("SELECT to_regclass(%s)::oid::bigint", name)
        return None if number is None else int(number)

    def columns(self, table: int) -> tuple[ColumnSent, ...]:
        """As the log has them now: it says so itself with the next change only."""
        rows = self._all(
            "SELECT a.attname::text, a.atttypid::bigint, a.atttypmod FROM pg_attribute a WHERE a.attrelid = %s "  # noqa: S608 - ours
            f"AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND {self.is_sent} ORDER BY a.attnum",
            table,
            self.name,
        )
        return tuple(ColumnSent(*row) for row in rows)

    def storage(self, table: int) -> Storage:
        rows = self._all(f"SELECT {STORAGE} FROM pg_class c WHERE c.oid = %s", table)  # noqa: S608 - ours
        return storage_of(*rows[0]) if rows else Storage()

    def make_publication(self) -> bool:
        """Makes it without tables if there is none. Returns whether it had to be made, or to publish more. Raises
        ConfigError, with the statement, if it may not."""
        return self._publishes_more(f"CREATE PUBLICATION {self._publication} WITH (publish_via_partition_root = true)")

    def add_to_publication(self, table: Table) -> None:
        """Raises ConfigError, with the statement, if it may not."""
        self._mend(f"ALTER PUBLICATION {self._publication} ADD TABLE {table.name}")

    def take_from_publication(self, table: Table) -> None:
        """PostgreSQL refuses updates of a table that is published and has no identity any more. Raises as above."""
        self._mend(f"ALTER PUBLICATION {self._publication} DROP TABLE {table.name}")

    def transactions(self) -> tuple[int, int]:
        """All transactions below the first id have ended; the second one is the next that will begin."""
        asked = (
            "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint FROM pg_current_snapshot() s"
        )
        oldest, newest = self._row(asked)
        return oldest, newest

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._all(statement, *parameters)

    def publish(self, table: Table) -> bool:
        """Whether the publication had to be made or extended. Raises ConfigError, with the statement, if it may not."""
        made_with = f"FOR TABLE {table.name} WITH (publish_via_partition_root = true)"
        if self._publishes_more(f"CREATE PUBLICATION {self._publication} {made_with}"):
            return True
        if self.publishes(table):
            return False
        self.add_to_publication(table)
        return True

    def publishes(self, table: Table) -> bool:
        """Whether the log has all changes of the table. Raises ConfigError if it has those of some rows only."""
        if not self.publishes_all_kinds():
            return False
        asked = f"SELECT {self.is_published}, {self.has_condition} FROM pg_class c WHERE c.oid = %s"  # noqa: S608 - ours
        is_published, has_condition = next(iter(self._all(asked, self.name, self.name, table.id)), (False, False))
        if has_condition:
            raise self.of_condition(table)
        return bool(is_published)

    def publishes_all_kinds(self) -> bool:
        """Whether there is a publication that leaves out no kind of change."""
        made = self._all(_PUBLISHES, self.name)
        return bool(made and made[0][0])

    def of_condition(self, table: Table) -> ConfigError:
        return ConfigError(
            f"the publication {self.name} has a condition (WHERE) for the table's rows: the log lacks all others",
            where=f"table {table.name}",
            next_step=f"ALTER PUBLICATION {self._publication} DROP TABLE {table.name}; then ADD TABLE {table.name}",
        )

    @property
    def is_published(self) -> str:
        """A condition about `c`, a row of pg_class, with our name as its parameter.

        The view pg_publication_tables knows it, too, but opens each published table since PostgreSQL 16: one that
        somebody locks would hold it up.
        """
        return _IS_PUBLISHED.format(_OF_SCHEMA if self._server_version >= _SCHEMAS_SINCE else "")

    @property
    def is_sent(self) -> str:
        """A condition about `a`, a row of pg_attribute, with our name as its parameter: the log has that column."""
        return _IS_SENT if self._server_version >= _PARTS_SINCE else "%s::text IS NOT NULL"

    @property
    def has_condition(self) -> str:
        """A condition about `c`, a row of pg_class, with our name as its parameter: the log has not all rows."""
        return _HAS_CONDITION if self._server_version >= _PARTS_SINCE else "%s::text IS NULL"

    @property
    def _publication(self) -> str:
        return sql.Identifier(self.name).as_string(None)

    def _publishes_more(self, create: str) -> bool:
        """Whether it had to be made, by this statement, or to publish more kinds of changes."""
        made = self._all(_PUBLISHES, self.name)
        if made and made[0][0]:
            return False
        alter = f"ALTER PUBLICATION {self._publication} SET (publish = 'insert, update, delete, truncate')"
        self._mend(alter if made else create)
        return True

    def slot(self) -> Slot | None:
        rows = self._all(
            "SELECT confirmed_flush_lsn::text, coalesce(wal_status = 'lost', false), "
            "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, plugin, "
            "database = current_database() FROM pg_replication_slots WHERE slot_name = %s",
            self.name,
        )
        if not rows:
            return None
        confirmed, is_lost, held, plugin, is_here = rows[0]
        if plugin != "pgoutput" or not is_here:
            raise ConfigError(
                f"the slot {self.name} belongs to another database or plugin",
                where=self._where,
                next_step="name another under `slot` of the source",
            )
        return Slot(lsn_number(confirmed or "0/0"), is_lost, held)

    def keep_limit(self) -> str | None:
        """How much of its log PostgreSQL keeps for a slot that nobody reads. None: all of it."""
        (limit,) = self._row("SELECT current_setting('max_slot_wal_keep_size')")
        return None if limit == "-1" else str(limit)

    def make(self, checkpoint: Callable[[], None]) -> int:
        """Makes the slot, and returns from where it has the log. Waits until all running transactions have ended, and
        calls `checkpoint` now and then."""
        more = ", failover => true" if self._server_version >= _FAILOVER_SINCE else ""
        name = sql.Literal(self.name).as_string(None)
        statement = f"SELECT lsn::text FROM pg_create_logical_replication_slot({name}, 'pgoutput'{more})"  # noqa: S608 - ours
        unlimited = "SET lock_timeout = 0; SET statement_timeout = 0"
        if self._server_version >= LIMITS_TRANSACTIONS_SINCE:
            unlimited += "; SET transaction_timeout = 0"
        try:
            with self._session.connection(_MAKING_S) as connection:
                connection.execute(unlimited)
                wire: Any = connection.pgconn
                wire.send_query(statement.encode())
                while wire.is_busy():
                    if arrived(wire.socket, _LOOK_EVERY_S):
                        wire.consume_input()
                    checkpoint()
                result = wire.get_result()
                if result.status == pq.ExecStatus.FATAL_ERROR:
                    raise errors.error_from_result(result)
                position = result.get_value(0, 0).decode()
        except ConfigError as error:
            raise ConfigError(error.what, where=self._where, next_step="raise max_replication_slots") from error
        finally:
            # The next connection has its limits again. If it ends before, the server gives up what it has begun.
            self._session.close()
        return lsn_number(position)

    def drop(self) -> None:
        """Raises ConfigError if it belongs to others."""
        self.slot()
        self._all(
            "SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE slot_name = %s", self.name
        )

    def beat(self) -> None:
        """Writes a message of ours to the log: else the slot of tables where nothing happens would hold all of it."""
        if self._may_log_running is None:
            self._may_log_running = bool(self._row(_MAY_LOG_RUNNING)[0])
        if self._may_log_running:
            # What a slot keeps can only begin where the log says which transactions run: by itself every 15 s.
            self._row("SELECT pg_log_standby_snapshot()::text")
        self._row("SELECT pg_logical_emit_message(false, %s, '')::text", PREFIX)

    def wait_for_running(self, checkpoint: Callable[[], None]) -> None:
        """Returns when all transactions that write now have ended. Calls `checkpoint` now and then."""
        _, until = self.transactions()
        while self.transactions()[0] < until:
            checkpoint()
            time.sleep(_LOOK_EVERY_S)

    def kinds(self, types: Sequence[int]) -> dict[int, Kind]:
        """What values of these types look like."""
        rows = {
            number: (kind, base, element, delimiter, fields, modifier)
            for number, kind, base, element, delimiter, fields, modifier in self._all(
                "WITH RECURSIVE t(oid) AS (SELECT unnest(%s::bigint[])::oid UNION "
                "  SELECT n.oid FROM t JOIN pg_type p ON p.oid = t.oid CROSS JOIN LATERAL "
                "    (SELECT p.typbasetype UNION ALL "
                "    SELECT CASE WHEN p.typcategory = 'A' THEN p.typelem ELSE 0 END UNION ALL "
                "    SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = p.typrelid AND a.attnum > 0 "
                "      AND NOT a.attisdropped AND p.typtype = 'c') n(oid) WHERE n.oid <> 0) "
                "SELECT p.oid::bigint, p.typtype::text, p.typbasetype::bigint, "
                "CASE WHEN p.typcategory = 'A' THEN p.typelem ELSE 0 END::bigint, p.typdelim::text, "
                "(SELECT jsonb_agg(jsonb_build_array(a.attname, a.atttypid::bigint) ORDER BY a.attnum) "
                "  FROM pg_attribute a WHERE a.attrelid = p.typrelid AND a.attnum > 0 AND NOT a.attisdropped "
                "  AND p.typtype = 'c'), p.typtypmod FROM t JOIN pg_type p USING (oid)",
                list(types),
            )
        }
        return {number: kinds_of(rows, number) for number in types}

    @property
    def _server_version(self) -> int:
        if self._version is None:
            with self._session.connection() as connection:
                self._version = connection.info.server_version
        return self._version

    def _mend(self, statement: str) -> None:
        with self._session.connection() as connection:
            try:
                connection.execute(statement)
            except errors.InsufficientPrivilege:
                raise ConfigError(
                    f"the publication {self.name} does not have the table, and this user may not change it",
                    where=self._where,
                    next_step=f"{statement};",
                ) from None

    def _row(self, statement: str, *parameters: Any) -> tuple[Any, ...]:
        return self._all(statement, *parameters)[0]

    def _all(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._session.connection() as connection:
            return connection.execute(statement, parameters or None).fetchall()


def storage_of(partitions: str | None, files: str) -> Storage:
    """Of what the expressions gave."""
    return Storage(partitions or "", files)

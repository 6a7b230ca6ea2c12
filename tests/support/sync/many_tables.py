"""A source of many tables under test: a schema of its own, and an auditor of all its tables and their topics."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from enrich.base.errors import EnrichError
from enrich.config.sections.sync.sources import slot_name
from stores.external.postgres.log.slots import Slots
from tests.support.sync.sources import Findings, SourceWorld, compared
from tests.support.waiting import GUARD_S, wait_until


class ManyTables:
    """The tables of a schema that belongs to one test."""

    def __init__(self, source: SourceWorld) -> None:
        self.source = source
        self.schema = source.name
        source.topic = f"{source.name}.{{schema}}.{{table}}"
        source.origin = {"postgres": {"dsn": source.dsn, "tables": f"{self.schema}.*", "follow": "log"}}
        self.execute(f"CREATE SCHEMA {self.schema}")

    def execute(self, statement: str, *parameters: Any) -> Any:
        """`{}` is the schema in the statement."""
        return self.source.postgres.execute(statement.format(self.schema), parameters or None)

    def make(self, table: str, columns: str = "id bigint PRIMARY KEY, plan text", rows: int = 0) -> None:
        self.execute(f"CREATE TABLE {{}}.{table} ({columns})")
        if rows:
            self.insert(table, 1, rows)

    def insert(self, table: str, first: int, last: int) -> None:
        rows = f"SELECT n, 'plan ' || n FROM generate_series({first}, {last}) n"  # noqa: S608 - numbers
        self.execute(f"INSERT INTO {{}}.{table} (id, plan) {rows}")

    def change(self, table: str, plan: str, row: int = 1) -> None:
        self.execute(f"UPDATE {{}}.{table} SET plan = %s WHERE id = %s", plan, row)  # noqa: S608 - a test's own name

    def delete(self, table: str, row: int) -> None:
        self.execute(f"DELETE FROM {{}}.{table} WHERE id = %s", row)  # noqa: S608 - a test's own name

    def topic(self, table: str) -> str:
        return f"{self.source.name}.{self.schema}.{table}"

    def versions(self, table: str) -> dict[bytes, list[bytes | None]]:
        """Of each key of the table's topic all values that it ever had, a tombstone as None."""
        self.source.topic, template = self.topic(table), self.source.topic
        try:
            return self.source.versions()
        finally:
            self.source.topic = template

    def records(self, table: str) -> int:
        return sum(map(len, self.versions(table).values()))

    def living(self, table: str) -> dict[bytes, bytes]:
        return _living(self.versions(table))

    def audit(self, table: str) -> Findings:
        try:
            versions = self.versions(table)
        except EnrichError:
            return Findings({f"no topic of {table}"})
        topic = _living(versions)
        return compared(self.execute(f"SELECT * FROM {{}}.{table}"), topic)  # noqa: S608 - a test's own name

    def tables(self) -> list[str]:
        asked = "SELECT relname::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p')"
        return [name for (name,) in self.source.postgres.execute(asked, [self.schema])]

    def wait_equal(self, *tables: str, deadline_s: float = GUARD_S) -> None:
        """All of them, unless some are named."""
        for table in tables or self.tables():
            wait_until(lambda: not self.audit(table), deadline_s=deadline_s, what=f"a topic like {table}")  # noqa: B023

    def drop(self) -> None:
        """The slot would hold the log."""
        name = slot_name(self.source.name, "in")
        with closing(Slots(self.source.dsn, name)) as slots:
            wait_until(lambda: not _is_active(slots, name), what="the end of the slot's reader")
            slots.drop()
        self.source.postgres.execute(f"DROP PUBLICATION IF EXISTS {name}")
        self.execute("DROP SCHEMA {} CASCADE")


def _living(versions: Mapping[bytes, list[bytes | None]]) -> dict[bytes, bytes]:
    return {key: values[-1] for key, values in versions.items() if values[-1] is not None}


def _is_active(slots: Slots, name: str) -> bool:
    return bool(slots.rows("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active", name))


@contextmanager
def many_tables(source: SourceWorld) -> Iterator[ManyTables]:
    many = ManyTables(source)
    try:
        yield many
    finally:
        many.drop()

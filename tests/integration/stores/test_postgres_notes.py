"""The tables that the sync service makes for itself: all its routes, and all instances, may want them at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Barrier

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

from stores.external import PostgresLocation, PostgresStore, VersionedRows
from stores.external.postgres.markers import MARKERS
from tests.support.seed import rounds

AT_ONCE = 8


@pytest.fixture
def dsn(servers):
    with psycopg.connect(servers.postgres_dsn, autocommit=True) as server:
        server.execute("CREATE DATABASE notes_at_once")
        yield make_conninfo(servers.postgres_dsn, dbname="notes_at_once")
        server.execute("DROP DATABASE notes_at_once WITH (FORCE)")


def test_all_begin_at_once_in_a_new_database(dsn: str) -> None:
    place = PostgresLocation("plans", ["id"], {}, deleted_column="deleted")
    together = Barrier(AT_ONCE)

    def begin(store: PostgresStore) -> str | None:
        store.incarnation()  # connected
        together.wait()
        return store.load_note("a")

    with psycopg.connect(dsn, autocommit=True) as database, ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in range(rounds(20, 500)):
            database.execute("DROP TABLE IF EXISTS enrich_sync_notes")
            with ExitStack() as held:
                stores = [held.enter_context(closing(PostgresStore(dsn, place))) for _ in range(AT_ONCE)]
                assert {*threads.map(begin, stores)} == {None}


def test_marks_in_another_schema_are_told_of_unless_the_table_is_named_with_its_own(dsn: str) -> None:
    """As two pipelines have them, each with a search path of its own: marks of one would keep rows from the other."""
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute(MARKERS)
        for schema in ("a", "b"):
            database.execute(f"CREATE SCHEMA {schema}")
            database.execute(f"CREATE TABLE {schema}.plans (id text PRIMARY KEY, version bigint NOT NULL)")
    key = pa.array([b"ann"], pa.binary())
    row, gone = pa.array([{}], pa.struct([])), pa.array([None], pa.struct([]))

    def written(table: str) -> tuple[int, list[str]]:
        """Of a row that is older than its deletion in the other schema's table."""
        with ExitStack() as held:
            own, other = (
                held.enter_context(
                    closing(
                        PostgresStore(
                            make_conninfo(dsn, options=f"-c search_path={schema},public"),
                            PostgresLocation(table.format(schema), ["id"], {}, deleted_column=None),
                        )
                    )
                )
                for schema in ("a", "b")
            )
            other.write(VersionedRows(key, pa.array([10], pa.int64()), gone))
            return own.write(VersionedRows(key, pa.array([5], pa.int64()), row)).applied, own.check()

    applied, (warning,) = written("plans")
    assert applied == 0
    assert "name the table with its schema" in warning
    assert written("{}.plans") == (1, [])

"""The tables that the sync service makes for itself: all its routes, and all instances, may want them at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Barrier

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from stores.external import PostgresLocation, PostgresStore
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

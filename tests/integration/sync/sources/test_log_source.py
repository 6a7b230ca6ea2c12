"""A table becomes a topic by PostgreSQL's change log: every committed change, once, whatever it is."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from enrich.service.routes import RouteState
from stores.external.postgres.log.slots import Slots
from sync_service.sources.building import slot_name
from tests.support.sources import SourceWorld, repeats
from tests.support.waiting import wait_until


@pytest.fixture
def logged(source: SourceWorld) -> Iterator[SourceWorld]:
    """A table whose log is followed. Its slot goes with the test: it would hold the log."""
    source.origin = {"postgres": {**source.origin["postgres"], "follow": "log"}}
    source.make_topic()
    yield source
    drop_slot(source)
    source.postgres.execute(f"DROP PUBLICATION IF EXISTS {slot_name(source.name, 'in')}")


def drop_slot(source: SourceWorld) -> None:
    with closing(Slots(source.dsn, slot_name(source.name, "in"))) as slots:
        slots.drop()


def test_the_topic_becomes_the_table_and_follows_each_change(logged: SourceWorld) -> None:
    logged.make_table(rows=1_000)
    with logged.running():
        logged.wait_equal()
        logged.insert(1_001, 1_500)
        logged.change(5, "changed")
        logged.execute("DELETE FROM {} WHERE id BETWEEN 10 AND 19")
        logged.execute("UPDATE {} SET id = -id WHERE id BETWEEN 20 AND 24")  # a new key: the old one goes
        logged.wait_equal()
    assert logged.records() == 1_000 + 500 + 1 + 10 + 10
    assert repeats(logged.versions()) == []


def test_changes_while_nobody_runs_are_not_missed_and_nothing_is_repeated(logged: SourceWorld) -> None:
    logged.make_table(rows=100)
    with logged.running():
        logged.wait_equal()
    logged.change(1, "while away")
    logged.execute("DELETE FROM {} WHERE id = 2")
    logged.insert(101, 110)
    with logged.running() as service:
        logged.wait_equal()
        assert service.status("in").counters["readings"] == 0, "it went on in the log, and compared nothing"
    assert logged.records() == 100 + 1 + 1 + 10


def test_what_is_rolled_back_is_not_there_and_a_transaction_comes_whole(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    with logged.running():
        logged.wait_equal()
        with logged.postgres.transaction():
            logged.execute("UPDATE {} SET plan = 'inner' WHERE id = 1")
            with pytest.raises(ZeroDivisionError), logged.postgres.transaction():
                logged.execute("UPDATE {} SET plan = 'never' WHERE id = 2")
                raise ZeroDivisionError
            logged.execute("UPDATE {} SET plan = 'last' WHERE id = 1")
        logged.wait_equal()
    values = [value for value in logged.versions()[b"1"] if value is not None]
    assert [b"inner" in values[1], b"last" in values[2]] == [True, True]
    assert len(logged.versions()[b"2"]) == 1


def test_truncate_deletes_all_rows_and_asks_nobody(logged: SourceWorld) -> None:
    logged.make_table(rows=50)
    with logged.running():
        logged.wait_equal()
        with logged.postgres.transaction():
            logged.execute("TRUNCATE {}")
            logged.insert(40, 60)
        logged.wait_equal()
    # A row that is there again is never deleted meanwhile.
    assert None not in logged.versions()[b"45"]


def test_a_column_with_a_default_changes_all_rows(logged: SourceWorld) -> None:
    logged.make_table(rows=50)
    with logged.running():
        logged.wait_equal()
        logged.execute("ALTER TABLE {} ADD COLUMN region text DEFAULT 'eu'")
        logged.change(7, "after it")
        logged.wait_equal()
        logged.execute("ALTER TABLE {} DROP COLUMN price")
        logged.change(8, "after that")
        logged.wait_equal()


LARGE = "repeat(md5(random()::text), 300)"


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_large_values_that_a_change_does_not_touch_stay(logged: SourceWorld, identity: str) -> None:
    logged.make_table("id bigint PRIMARY KEY, plan text, body text")
    logged.execute("ALTER TABLE {} ALTER COLUMN body SET STORAGE EXTERNAL")
    logged.execute(f"ALTER TABLE {{}} REPLICA IDENTITY {identity}")
    logged.execute(f"INSERT INTO {{}} SELECT n, 'p', {LARGE} FROM generate_series(1, 20) n")  # noqa: S608 - constants
    with logged.running():
        logged.wait_equal()
        logged.execute("UPDATE {} SET plan = 'q' WHERE id <= 10")
        logged.execute("UPDATE {} SET id = 100 WHERE id = 11")
        logged.wait_equal()


def test_a_transaction_that_began_before_the_source_and_ends_after_it(logged: SourceWorld) -> None:
    logged.make_table(rows=10)
    with psycopg.connect(logged.dsn) as other:
        other.execute(logged.filled("INSERT INTO {} VALUES (100, 'early')"))
        with logged.running() as service:
            # The slot is made when the transactions of now are over.
            wait_until(lambda: service.status("in").state is not RouteState.stopped, what="the start")
            logged.execute("INSERT INTO {} VALUES (101, 'beside')")
            other.commit()
            logged.wait_equal()
    assert logged.records() == 12


def test_a_slot_that_somebody_drops_is_made_again_and_all_is_compared(logged: SourceWorld) -> None:
    logged.make_table(rows=50)
    with logged.running():
        logged.wait_equal()
    drop_slot(logged)
    logged.change(3, "nobody has seen this")
    logged.execute("DELETE FROM {} WHERE id = 4")
    with logged.running():
        logged.wait_equal()
    assert logged.records() == 52

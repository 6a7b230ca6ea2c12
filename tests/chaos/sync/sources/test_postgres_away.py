"""PostgreSQL is killed, or stands still, in the middle of a reading: nothing of half an answer reaches the topic."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.service.routes import RouteState
from stores.errors import Unreachable
from stores.external.postgres.reading import PostgresReader
from tests.support.processes import all_frozen
from tests.support.servers.restarted import Servers
from tests.support.sync.service import Running
from tests.support.sync.sources import SourceWorld, has_read, repeats
from tests.support.waiting import wait_until

_ROWS = 600


@pytest.fixture
def source(chaos: Servers, tmp_path: Path) -> Iterator[SourceWorld]:
    """Of a view that takes its time and has wide rows: a reading takes a second and comes in three pieces of 4 MiB, so
    that it has a middle; and nothing but the reading itself keeps half of it from being taken for all there is."""
    with ExitStack() as held:
        source = SourceWorld(chaos.addresses, tmp_path, held)
        source.make_topic()
        source.settings |= {"delete_guard": 1}
        source.make_table(rows=_ROWS)
        source.execute("ALTER TABLE {} ADD COLUMN wide text DEFAULT repeat('w', 20000)")
        slow = "CASE WHEN id % 20 = 0 THEN length(pg_sleep(0.03)::text) ELSE 0 END"
        columns = f"id + {slow} AS id, plan, price, at, wide"
        source.execute(f"CREATE VIEW {{0}}_slow AS SELECT {columns} FROM {{0}} OFFSET 0")  # noqa: S608 - our own names
        source.origin["postgres"]["table"] = f"{source.name}_slow"
        yield source


def has_part(source: SourceWorld) -> bool:
    """Whether differences were found in a reading that is still under way."""
    found = source.known / "work" / "differences.arrow"
    return found.exists() and found.stat().st_size > 2**20


def is_waiting(service: Running) -> bool:
    return service.status("in").state is RouteState.waiting and bool(service.status("in").last_error)


def test_what_was_read_when_postgres_is_killed_is_thrown_away_and_read_again(
    source: SourceWorld, chaos: Servers
) -> None:
    with source.running() as service:
        source.wait_equal()
        for attempt in range(10):
            before = source.versions()
            source.execute(f"UPDATE {{}} SET plan = 'changed {attempt}'")  # noqa: S608 - a number
            wait_until(lambda: has_part(source), what="the first piece of a reading that sees the change")
            chaos.kill("postgres")
            wait_until(lambda: is_waiting(service), what="the source to wait")
            if source.versions() == before:
                break
            # On a busy machine all of it may have come before the kill; nothing else may be in the topic.
            chaos.restart()
            source.reconnect()
            source.wait_equal()
        else:
            raise AssertionError("what was read when PostgreSQL was killed is in the topic")
        chaos.restart()
        source.reconnect()
        source.execute("DELETE FROM {} WHERE id <= 10")
        source.wait_equal()
        wait_until(lambda: has_read(service), what="the source to go on")
    assert repeats(source.versions()) == []


def test_a_postgres_that_stands_still_is_waited_for_but_not_for_ever(source: SourceWorld, chaos: Servers) -> None:
    impatient = PostgresReader(source.dsn, stalled_s=0.5)
    stuck = f"id + CASE WHEN id = {_ROWS} THEN length(pg_sleep(20)::text) ELSE 0 END AS id, wide"
    source.execute(f"CREATE VIEW {{0}}_stuck AS SELECT {stuck} FROM {{0}} OFFSET 0")  # noqa: S608 - our own names
    with source.running() as service:
        source.wait_equal()
        for attempt in range(10):
            with impatient.snapshot() as snapshot:
                rows = snapshot.rows(snapshot.shape(f"{source.name}_stuck"), ["id", "wide"])
                next(rows)
                before = source.records()
                source.execute(f"UPDATE {{}} SET plan = 'changed {attempt}'")  # noqa: S608 - a number
                wait_until(lambda: has_part(source), what="the first piece of a reading that sees the change")
                with all_frozen(chaos.processes("postgres")):
                    with pytest.raises(Unreachable, match=r"sent nothing for 0\.5 s"):
                        list(rows)
                    assert service.status("in").state is RouteState.running, "it has more patience"
                    in_the_middle = source.records() == before
            source.wait_equal()
            if in_the_middle:
                break
        else:
            # A busy machine may be past the reading's end before all is frozen, but not each time.
            raise AssertionError("what was read before PostgreSQL stood still is in the topic")
    assert repeats(source.versions()) == []

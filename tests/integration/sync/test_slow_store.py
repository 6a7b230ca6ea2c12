"""A slow PostgreSQL makes a route slow, and never stops it."""

import psycopg
import pytest

from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


@pytest.mark.parametrize("ends", ["by our timeout", "by the user's statement_timeout"])
def test_rows_that_take_long_are_all_written(world: SyncWorld, ends: str) -> None:
    world.make_topic(partitions=1)
    world.make_table()
    body = "BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END"
    world.postgres.execute(f"CREATE FUNCTION {world.name}_f() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    world.postgres.execute(
        f"CREATE TRIGGER t BEFORE INSERT ON {world.name} FOR EACH ROW EXECUTE FUNCTION {world.name}_f()"
    )
    world.produce(*((f"k{number}", {"plan": "p", "rps": number}) for number in range(250)))
    dsn = world.servers.postgres_dsn or ""
    if "user" in ends:
        dsn = psycopg.conninfo.make_conninfo(dsn, options="-c statement_timeout=1s")
    to = world.to_postgres(dsn=dsn, timeout="1s" if "our" in ends else "30s")
    with running(world.pipeline(to)) as service:
        wait_until(lambda: len(world.in_postgres()) == 250, what="all rows")
        wait_until(lambda: service.status().lag == 0, what="the end of the lag")
    assert world.dead_letters() == {}

"""What stores do on bad days, done to real ones: the route waits, goes on by itself, and all is right again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from tests.chaos.sync.load import audit, load
from tests.chaos.sync.servers import Servers
from tests.support.seed import random_source, rounds
from tests.support.sync import Program, SyncWorld
from tests.support.waiting import wait_until

Start = Callable[[], Program]


def waiting(program: Program, route: str) -> None:
    wait_until(lambda: program.route(route).get("state") == "waiting", what=f"{route} to wait")


def going_on(program: Program, route: str) -> None:
    before = program.route(route)["counters"]["records_read"]
    wait_until(lambda: program.route(route)["counters"]["records_read"] > before + 100, what=f"{route} to go on")


@contextmanager
def redis_setting(world: SyncWorld, name: str, value: str) -> Iterator[None]:
    before = world.redis.config_get(name)[name]
    world.redis.config_set(name, value)
    try:
        yield
    finally:
        world.redis.config_set(name, before)


def test_a_full_redis_is_waited_for_and_nothing_of_a_row_is_gone(world: SyncWorld, start: Start) -> None:
    program = start()
    with load(world, random_source("oom")):
        wait_until(lambda: len(world.rows_in_redis()) > 100)
        with redis_setting(world, "maxmemory", "1"):
            waiting(program, "out")
            assert "command not allowed when used memory" in program.route()["last_error"]
            before = world.rows_in_redis()
            going_on(program, "table")
            assert world.rows_in_redis() == before
        going_on(program, "out")
    audit(world)


def test_a_redis_that_became_a_replica_is_waited_for(world: SyncWorld, start: Start) -> None:
    program = start()
    with load(world, random_source("readonly")):
        wait_until(lambda: len(world.rows_in_redis()) > 100)
        world.redis.replicaof("127.0.0.1", "1")
        try:
            waiting(program, "out")
            assert "read only replica" in program.route()["last_error"].lower()
        finally:
            world.redis.replicaof("NO", "ONE")
        going_on(program, "out")
    audit(world)


def test_a_redis_that_may_evict_rows_is_reported(world: SyncWorld, start: Start) -> None:
    with redis_setting(world, "maxmemory-policy", "allkeys-lru"):
        program = start()
        warnings = wait_until(lambda: program.route().get("details", {}).get("warnings"))
        assert "maxmemory-policy allkeys-lru" in warnings[0]
        told = 'enrich_sync_warnings{kind="writeback",route="out"} 1.0'
        wait_until(lambda: told in program.get("/metrics")[1], what="the metric")


def test_scripts_that_redis_has_forgotten_are_sent_again(world: SyncWorld, start: Start) -> None:
    program = start()
    with load(world, random_source("scripts")):
        wait_until(lambda: len(world.rows_in_redis()) > 100)
        for _ in range(rounds(5, 50)):
            going_on(program, "out")
            world.redis.script_flush()
    audit(world)
    assert program.route()["counters"].get("quick_retries", 0) > 0


def test_connections_that_postgres_ends_at_any_moment_lose_nothing(world: SyncWorld, start: Start) -> None:
    """So also the answers to commits: the same rows come again and change nothing."""
    program = start()
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'enrich sync'"
    with load(world, random_source("terminated")):
        wait_until(lambda: program.route("table").get("state") == "running")
        for _ in range(rounds(10, 100)):
            wait_until(lambda: world.postgres.execute(end).rowcount > 0, what="a connection to end")
        going_on(program, "table")
    audit(world)


def test_rows_that_others_lock_and_change_are_written_in_the_end(
    world: SyncWorld, start: Start, chaos: Servers
) -> None:
    """Locks held longer than the deadline, deadlocks, and conflicts of serializable transactions."""
    world.postgres.execute("ALTER ROLE enrich SET default_transaction_isolation = 'serializable'")
    try:
        start()
        source = random_source("locks")
        with load(world, source, keys=50), psycopg.connect(chaos.addresses.postgres_dsn or "") as other:
            wait_until(lambda: len(world.rows_in_postgres()) > 20)
            lock = f"UPDATE {world.name} SET rps = rps WHERE id = %s"  # noqa: S608 - our own name
            for _ in range(rounds(30, 300)):
                try:
                    # Backwards: the service takes the same locks forwards.
                    for key in sorted(source.sample([f"k{n}" for n in range(50)], 10), reverse=True):
                        other.execute(lock, [key])
                    other.commit()
                except psycopg.OperationalError:
                    other.rollback()
        audit(world)
    finally:
        world.postgres.execute("ALTER ROLE enrich RESET default_transaction_isolation")

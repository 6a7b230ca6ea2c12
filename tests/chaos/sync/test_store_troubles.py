"""What stores do on bad days, done to real ones: the route waits, goes on by itself, and all is right again."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from enrich.config import load_text
from enrich.dev import Addresses
from stores.errors import Unreachable
from stores.external import PostgresLocation, PostgresStore
from tests.chaos.sync.load import audit, expected, load
from tests.contract.external.places import rows
from tests.support.seed import random_source, rounds
from tests.support.sync.service import Running, SyncWorld, running
from tests.support.waiting import wait_until

_KEYS = [f"k{number:02}" for number in range(20)]


@pytest.fixture
def world(servers: Addresses) -> Iterator[SyncWorld]:
    with ExitStack() as held:
        world = SyncWorld(servers, held)
        world.make_topic()
        world.make_table()
        yield world


@contextmanager
def both(world: SyncWorld) -> Iterator[Running]:
    """A service with a route to each store."""
    with running(load_text(json.dumps(world.data_to_both()), {})) as service:
        yield service


def waiting(service: Running, route: str) -> None:
    wait_until(lambda: service.status(route).state == "waiting", what=f"{route} to wait")


def going_on(service: Running, route: str) -> None:
    before = service.status(route).counters["records_read"]
    wait_until(lambda: service.status(route).counters["records_read"] > before + 100, what=f"{route} to go on")


@contextmanager
def redis_setting(world: SyncWorld, name: str, value: str) -> Iterator[None]:
    before = world.redis.config_get(name)[name]
    world.redis.config_set(name, value)
    try:
        yield
    finally:
        world.redis.config_set(name, before)


def test_a_full_redis_is_waited_for_and_nothing_of_a_row_is_gone(world: SyncWorld) -> None:
    with both(world) as service:
        with load(world, random_source("oom")):
            wait_until(lambda: len(world.rows_in_redis()) > 100)
            with redis_setting(world, "maxmemory", "1"):
                waiting(service, "out")
                assert "command not allowed when used memory" in (service.status().last_error or "")
                before = world.rows_in_redis()
                going_on(service, "table")
                assert world.rows_in_redis() == before
            going_on(service, "out")
        audit(world)


def test_a_redis_that_became_a_replica_is_waited_for(world: SyncWorld) -> None:
    with both(world) as service:
        with load(world, random_source("readonly")):
            wait_until(lambda: len(world.rows_in_redis()) > 100)
            world.redis.replicaof("127.0.0.1", "1")
            try:
                waiting(service, "out")
                assert "read only replica" in (service.status().last_error or "").lower()
            finally:
                world.redis.replicaof("NO", "ONE")
            going_on(service, "out")
        audit(world)


def test_a_redis_that_may_evict_rows_is_reported(world: SyncWorld) -> None:
    with redis_setting(world, "maxmemory-policy", "allkeys-lru"), running(world.pipeline(world.to_redis())) as service:
        warnings = wait_until(lambda: service.status().details["warnings"])
        assert "maxmemory-policy allkeys-lru" in warnings[0]
        wait_until(lambda: service.status().gauges.get("warnings") == 1, what="the gauge")


def test_scripts_that_redis_has_forgotten_are_sent_again(world: SyncWorld) -> None:
    with both(world) as service:
        with load(world, random_source("scripts")):
            wait_until(lambda: len(world.rows_in_redis()) > 100)
            for _ in range(rounds(5, 50)):
                going_on(service, "out")
                world.redis.script_flush()
        audit(world)
        assert service.status().counters.get("quick_retries", 0) > 0


def test_connections_that_postgres_ends_at_any_moment_lose_nothing(world: SyncWorld) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'enrich sync'"
    with both(world) as service:
        with load(world, random_source("terminated")):
            wait_until(lambda: service.status("table").state == "running")
            for _ in range(rounds(10, 100)):
                wait_until(lambda: world.postgres.execute(end).rowcount > 0, what="a connection to end")
            going_on(service, "table")
        audit(world)


def test_rows_that_others_lock_and_change_are_written_in_the_end(world: SyncWorld) -> None:
    source = random_source("locks")
    to = world.to_postgres(dsn=with_options(world, "default_transaction_isolation=serializable"))
    with running(world.pipeline(to)), load(world, source, keys=20), another(world) as other:
        wait_until(lambda: len(world.rows_in_postgres()) > 10)
        for _ in range(rounds(30, 300)):
            try:
                # Backwards: the service takes the same locks forwards.
                for number in sorted(source.sample(range(20), 10), reverse=True):
                    touch(world, other, f"k{number}")
                other.commit()
            except psycopg.OperationalError:
                other.rollback()
    with running(world.pipeline(to)):
        wait_until(lambda: world.rows_in_postgres() == expected(world), what="the rows as the topic says")


def test_a_deadlock_that_the_service_loses_costs_a_retry_and_no_row(world: SyncWorld) -> None:
    before = deadlocks(world)
    dsn = with_options(world, "deadlock_timeout=300ms")
    with running(world.pipeline(world.to_postgres(dsn=dsn))) as service:
        produce_all(world, 0)
        wait_until(lambda: world.in_postgres().keys() == set(_KEYS), what="the rows")
        # Whoever looks first finds the deadlock and loses.
        with another(world, "deadlock_timeout=60s") as other:
            for number in range(1, 10):  # it may take two rounds: rows that come in two batches are no deadlock
                touch(world, other, _KEYS[-1])
                produce_all(world, number)
                wait_until(lambda: is_blocked(world), what="the service to wait for the last row")
                touch(world, other, _KEYS[0])
                other.commit()
                wait_until(lambda: world.rows_in_postgres() == expected(world), what="the rows of this round")
                if service.status().counters.get("quick_retries", 0):
                    break
        with load(world, random_source("deadlock")):  # a server's process tells its counts while it works
            wait_until(lambda: deadlocks(world) > before, what="the server's count of a deadlock")
        wait_until(lambda: world.rows_in_postgres() == expected(world), what="the rows as the topic says")
        assert service.status().counters["quick_retries"] > 0


def test_a_serialization_failure_costs_a_retry_and_no_row(world: SyncWorld) -> None:
    dsn = with_options(world, "default_transaction_isolation=serializable")
    with running(world.pipeline(world.to_postgres(dsn=dsn))) as service, another(world) as other:
        produce_all(world, 0)
        wait_until(lambda: world.in_postgres().keys() == set(_KEYS), what="the rows")
        touch(world, other, _KEYS[-1])
        produce_all(world, 1)
        wait_until(lambda: is_blocked(world), what="the service to wait for the last row")
        assert service.status().counters.get("quick_retries", 0) == 0
        other.commit()  # the row is another now than in the snapshot of the one that waits for it
        wait_until(lambda: {row[1] for row in world.in_postgres().values()} == {1}, what="the new rows")
        wait_until(lambda: service.status().counters.get("quick_retries", 0) == 1, what="the count of the retry")


def test_what_waits_too_long_for_a_lock_is_given_up_on_both_sides(world: SyncWorld) -> None:
    """Else the server would keep one more of its connections waiting with each try."""
    place = PostgresLocation(world.name, ["id"], {"plan": "plan", "rps": "rps"})
    with closing(PostgresStore(world.servers.postgres_dsn or "", place, deadline_s=4)) as store:
        store.write(rows(("a", 1, ("old", 1)), ("b", 1, ("old", 1))))
        with another(world) as other:
            touch(world, other, "b")
            with pytest.raises(Unreachable, match=r"waited 3\.2 s for a lock that others hold"):
                store.write(rows(("a", 2, ("new", 2)), ("b", 2, ("new", 2))))
            wait_until(lambda: not is_blocked(world), what="the server to notice")
            other.rollback()
        assert store.write(rows(("a", 2, ("new", 2)), ("b", 2, ("new", 2)))).applied == 2


def with_options(world: SyncWorld, setting: str) -> str:
    return f"{world.servers.postgres_dsn}?options={quote(f'-c {setting}')}"


@contextmanager
def another(world: SyncWorld, setting: str = "search_path=public") -> Iterator[Any]:
    """Another program that writes the same table, in transactions."""
    with psycopg.connect(with_options(world, setting)) as connection:
        yield connection


def touch(world: SyncWorld, other: Any, key: str) -> None:
    other.execute(f"UPDATE {world.name} SET plan = plan WHERE id = %s", [key])  # noqa: S608 - our own name


def produce_all(world: SyncWorld, number: int) -> None:
    world.produce(*((key, {"plan": "p", "rps": number}) for key in _KEYS))


def is_blocked(world: SyncWorld) -> bool:
    blocked = "SELECT FROM pg_stat_activity WHERE application_name = 'enrich sync' AND wait_event_type = 'Lock'"
    return bool(world.postgres.execute(blocked).rowcount)


def deadlocks(world: SyncWorld) -> int:
    counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    return int(world.postgres.execute(counted).fetchone()[0])

"""Instances and stores killed, frozen and restarted under load: nothing is lost, nothing older wins, nobody helps."""

import time
from collections.abc import Callable

import psutil
import pytest

from tests.chaos.sync.load import audit, load
from tests.chaos.sync.servers import Servers
from tests.support.processes import all_frozen, kill
from tests.support.seed import random_source, rounds
from tests.support.sync import Program, SyncWorld
from tests.support.waiting import wait_until

Start = Callable[[], Program]

_MOST_MEMORY = 300 * 2**20


def read(program: Program) -> int:
    """Records read so far by both routes; 0 while it starts."""
    return sum(program.route(name).get("counters", {}).get("records_read", 0) for name in ("out", "table"))


def at_work(program: Program, more: int = 500) -> None:
    """Returns once it has read so many more records."""
    before = read(program)
    wait_until(lambda: read(program) >= before + more, what="an instance at work", deadline_s=60)


def test_an_instance_that_is_killed_loses_nothing(world: SyncWorld, start: Start) -> None:
    with load(world, random_source("kill")):
        for _ in range(rounds(5, 30)):
            instance = start()
            at_work(instance)
            kill(instance.process.pid)
            instance.end()
        last = start()
        at_work(last)
    audit(world)
    assert psutil.Process(last.process.pid).memory_info().rss < _MOST_MEMORY
    assert last.stop() == 0


def test_instances_that_come_and_go_lose_nothing(world: SyncWorld, start: Start) -> None:
    source = random_source("rebalance")
    with load(world, source):
        instances = [start(), start()]
        at_work(instances[0])
        for number in range(rounds(3, 20)):
            instances.append(start())
            at_work(instances[-1], more=1)
            leaving = instances.pop(source.randrange(2))
            if number % 2:
                kill(leaving.process.pid)
            else:
                assert leaving.stop() == 0
    # A killed member is missed by its group only after its session: 45 s by default.
    audit(world, deadline_s=120)


@pytest.mark.parametrize(("name", "route", "other"), [("redis", "out", "table"), ("postgres", "table", "out")])
def test_a_store_that_is_killed_and_comes_back_has_everything(
    world: SyncWorld, start: Start, chaos: Servers, name: str, route: str, other: str
) -> None:
    instance = start()
    with load(world, random_source(f"store/{name}")):
        at_work(instance)
        for number in range(rounds(1, 5)):
            chaos.kill(name)
            wait_until(lambda: instance.route(route).get("state") == "waiting", what="the route to wait")
            go_on(instance, other)
            chaos.restart()
            world.reconnect()
            go_on(instance, route)
            wait_until(lambda number=number: instance.route(route)["counters"]["rewinds"] > number, what="a rewind")  # type: ignore[misc] # a default binds the loop's value
    audit(world)
    assert psutil.Process(instance.process.pid).memory_info().rss < _MOST_MEMORY


def go_on(instance: Program, route: str) -> None:
    """Returns once the route has read more."""
    before = instance.route(route)["counters"]["records_read"]
    wait_until(lambda: instance.route(route)["counters"]["records_read"] > before + 100, what=f"{route} to go on")


def test_stores_that_stand_still_are_waited_for(world: SyncWorld, start: Start, chaos: Servers) -> None:
    instance = start()
    with load(world, random_source("frozen")):
        at_work(instance)
        began = time.monotonic()
        with all_frozen(chaos.processes("redis", "postgres")):
            wait_until(
                lambda: {instance.route(name).get("state") for name in ("out", "table")} == {"waiting"},
                deadline_s=40,
                what="both routes to wait",
            )
            assert instance.get("/healthz")[0] == 200
            wait_until(lambda: time.monotonic() > began + 15, what="fifteen seconds")
        at_work(instance)
    audit(world)
    assert psutil.Process(instance.process.pid).memory_info().rss < _MOST_MEMORY


def test_the_auditor_sees_twenty_of_twenty_altered_rows(world: SyncWorld, start: Start) -> None:
    instance = start()
    with load(world, random_source("auditor"), keys=100):
        at_work(instance)
    audit(world)
    rows = sorted(world.rows_in_redis())[:20]
    assert len(rows) == 20
    for number, key in enumerate(rows):
        change = {"plan": "altered"} if number % 2 else {"_version": 5}
        old = world.redis.hmget(f"{world.name}:{key}", *change)
        world.redis.hset(f"{world.name}:{key}", mapping=change)
        with pytest.raises(AssertionError, match="Redis: 1 rows differ"):
            audit(world, deadline_s=0)
        world.redis.hset(f"{world.name}:{key}", mapping=dict(zip(change, old, strict=True)))
    audit(world)
    assert instance.stop() == 0

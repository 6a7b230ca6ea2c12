"""Instances and stores killed, frozen and restarted under load: nothing is lost, nothing older wins, nobody helps."""

import json
import signal
import time
from collections.abc import Callable

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from enrich.kafka import new_admin_client
from tests.chaos.sync.load import audit, load
from tests.support.processes import all_frozen, kill
from tests.support.seed import random_source, rounds
from tests.support.servers.restarted import Servers
from tests.support.sync.service import Program, SyncWorld
from tests.support.waiting import wait_until

Start = Callable[[], Program]

_MOST_MEMORY = 300 * 2**20


def read(program: Program) -> int:
    """Records read so far by both routes; 0 while it starts."""
    return sum(program.route(name).get("counters", {}).get("records_read", 0) for name in ("out", "table"))


def at_work(program: Program, more: int = 500) -> None:
    """Returns once it has read so many more records."""
    before = read(program)
    wait_until(lambda: read(program) >= before + more, what="an instance at work")


def test_an_instance_that_is_killed_loses_nothing(world: SyncWorld, start: Start) -> None:
    with load(world, random_source("kill")):
        for _ in range(rounds(2, 30)):
            instance = start()
            at_work(instance)
            kill(instance.process.pid)
            instance.close()
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
        for number in range(rounds(2, 20)):
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


def test_brokers_that_are_away_are_waited_for_and_the_log_says_so_once(
    world: SyncWorld, start: Start, chaos: Servers
) -> None:
    instance = start()
    with load(world, random_source("broker")):
        at_work(instance)
    chaos.kill("kafka")

    def states() -> set[str]:
        return {str(instance.route(name).get("state")) for name in ("out", "table")}

    wait_until(
        lambda: states() == {"waiting"}, what=lambda: f"waiting; {instance.route('out')} {instance.route('table')}"
    )
    assert instance.get("/readyz")[0] == 503
    # On a slow machine the first that is heard may be a question that had no answer in time.
    wait_until(lambda: str(instance.route("out")["last_error"]).startswith("no broker answers"), what="the reason")
    wait_until(lambda: tries(instance), what="a line of the log")
    chaos.restart()
    wait_until(lambda: instance.get("/readyz")[0] == 200, what="the brokers to be found again")
    # The clients try twenty times a second.
    assert tries(instance) <= 10
    with load(world, random_source("broker again")):
        go_on(instance, "out")
        go_on(instance, "table")
    audit(world)


def tries(instance: Program) -> int:
    return instance.log.count("Connection refused")


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
                deadline_s=120,
                what="both routes to wait",
            )
            assert instance.get("/healthz")[0] == 200
            wait_until(lambda: time.monotonic() > began + 15, what="fifteen seconds")
        at_work(instance)
    audit(world)
    assert psutil.Process(instance.process.pid).memory_info().rss < _MOST_MEMORY


def test_a_backlog_larger_than_memory_waits_in_the_topic_while_the_store_stands_still(
    world: SyncWorld, start: Start, chaos: Servers
) -> None:
    """More than it may take, of which it holds a few batches and the client's queue."""
    rows = rounds(600, 1_500)
    world.cluster.produce(world.topic, [(b"first", b'{"plan": "x", "rps": 1}')])
    instance = start()
    wait_until(lambda: read(instance) == 2, what="the first row in both stores")
    most = [0]

    def remembered() -> bool:
        most[0] = max(most[0], psutil.Process(instance.process.pid).memory_info().rss)
        return True

    with all_frozen(chaos.processes("redis", "postgres")):
        large = json.dumps({"plan": random_source("backlog").randbytes(100_000).hex(), "rps": 1}).encode()
        world.cluster.produce(world.topic, ((f"k{n}".encode(), large) for n in range(rows)))
        for name in ("out", "table"):
            wait_until(
                lambda name=name: remembered() and instance.route(name).get("state") == "waiting",  # type: ignore[misc] # a default binds the loop's value
                what=f"{name} to wait",
                deadline_s=180,
            )
    wait_until(lambda: remembered() and read(instance) == 2 * rows + 2, what="all rows in both stores")
    assert most[0] < _MOST_MEMORY
    audit(world)


def test_a_long_backlog_of_small_records_does_not_fill_the_memory(world: SyncWorld, start: Start) -> None:
    """Of these it is the client's bookkeeping that counts."""
    value = b'{"plan": "free", "rps": 5}'
    world.cluster.produce(world.topic, ((f"k{n % 300}".encode(), value) for n in range(400_000)))
    instance = start()
    most = [0]

    def is_done() -> bool:
        most[0] = max(most[0], psutil.Process(instance.process.pid).memory_info().rss)
        return read(instance) >= 800_000  # more where a busy machine cost it its membership for a moment

    wait_until(is_done, what="the end of the backlog")
    assert most[0] < _MOST_MEMORY


def test_an_instance_that_was_frozen_until_its_group_gave_it_up_reads_on(world: SyncWorld, start: Start) -> None:
    """Its client comes back to a seek that it forgets: the partition would return nothing for ever."""
    value = b'{"plan": "free", "rps": 5}'
    world.cluster.produce(world.topic, ((f"k{n % 300}".encode(), value) for n in range(400_000)))
    instance = start()
    wait_until(lambda: read(instance) > 50_000)
    admin = new_admin_client(world.cluster.connection)
    group = f"enrich.sync.{world.name}.out"
    instance.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: not members(admin, group), what="the end of its session")
    finally:
        instance.process.send_signal(signal.SIGCONT)
    wait_until(lambda: read(instance) >= 800_000, what="the end of the backlog")


def members(admin: AdminClient, group: str) -> int:
    """How many instances the group has now."""
    (described,) = admin.describe_consumer_groups([group]).values()
    return len(described.result(30).members)


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

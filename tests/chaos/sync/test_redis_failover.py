"""Another Redis takes over, or the same one comes back slowly: what it acknowledged and lost is written again."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.dev import Addresses
from tests.support.servers.redis_failover import RedisGroup, redis_group
from tests.support.servers.redis_server import redis_server
from tests.support.sync.service import Running, SyncWorld, running
from tests.support.waiting import wait_until

_BEFORE, _AFTER = 300, 200


@pytest.fixture
def world(servers: Addresses) -> Iterator[SyncWorld]:
    with ExitStack() as held:
        world = SyncWorld(servers, held)
        world.make_topic()
        yield world


@pytest.fixture
def group(tmp_path: Path) -> Iterator[RedisGroup]:
    with redis_group(tmp_path) as made:
        yield made


def produce(world: SyncWorld, first: int, last: int) -> None:
    world.produce(*((f"k{n}", {"plan": "p", "rps": n}) for n in range(first, last)))


def ids(first: int, last: int) -> set[str]:
    return {f"k{n}" for n in range(first, last)}


def has_committed(world: SyncWorld, service: Running) -> bool:
    """All of the topic: what is written from now on is not read again without a reason."""
    ends = world.cluster.topics.end_offsets(world.topic)
    return service.status().lag == 0 and world.committed() == ends


@pytest.mark.parametrize("is_up", [True, False], ids=["while it runs", "while it is stopped"])
def test_what_a_failover_lost_of_acknowledged_rows_is_written_again(
    world: SyncWorld, group: RedisGroup, is_up: bool
) -> None:
    replica = world.redis_of(group.replica)
    world.redis = world.redis_of(group.master)
    pipeline = world.pipeline(world.to_redis(**group.to))
    with running(pipeline) as service:
        produce(world, 0, _BEFORE)
        wait_until(lambda: world.in_redis().keys() == ids(0, _BEFORE), what="the first rows")
        wait_until(lambda: group.has_copied(), what="their copies")
        group.cut_replication()
        produce(world, _BEFORE, _BEFORE + _AFTER)
        wait_until(lambda: len(world.in_redis()) == _BEFORE + _AFTER, what="acknowledged rows")
        wait_until(lambda: has_committed(world, service), what="their commit")
        world.redis = replica
        assert world.in_redis().keys() == ids(0, _BEFORE), "the others are with the master alone"
        if is_up:
            group.kill_master()
            wait_until(lambda: world.in_redis().keys() == ids(0, _BEFORE + _AFTER), what="all rows, nobody helping")
            wait_until(lambda: service.status().counters["rewinds"] > 0, what="the count of it")
            produce(world, 0, 1)
            wait_until(lambda: has_committed(world, service), what="the route to go on")
    if not is_up:
        group.kill_master()
        with running(pipeline) as service:
            wait_until(lambda: world.in_redis().keys() == ids(0, _BEFORE + _AFTER), what="all rows, nobody helping")
            assert service.status().counters["rewinds"] == 1


def test_a_server_that_copied_another_in_between_is_another_one(world: SyncWorld, group: RedisGroup) -> None:
    """It was the master, became a replica, lost what it had and is the master again: the same process all the time."""
    url = group.master_url
    world.redis = world.redis_of(group.master)
    with running(world.pipeline(world.to_redis(url))) as service:
        produce(world, 0, _BEFORE)
        wait_until(lambda: len(world.in_redis()) == _BEFORE and group.has_copied(), what="the first rows")
        group.cut_replication()
        produce(world, _BEFORE, _BEFORE + _AFTER)
        wait_until(lambda: len(world.in_redis()) == _BEFORE + _AFTER, what="acknowledged rows")
        wait_until(lambda: has_committed(world, service), what="their commit")
        group.copy_replica_to_master()
        wait_until(lambda: world.in_redis().keys() == ids(0, _BEFORE + _AFTER), what="all rows, nobody helping")


def test_a_redis_that_is_still_loading_is_waited_for(world: SyncWorld, tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        world.redis = world.redis_of(server.start())
        with running(world.pipeline(world.to_redis(server.url))) as service:
            produce(world, 0, _BEFORE)
            wait_until(lambda: len(world.in_redis()) == _BEFORE, what="the first rows")
            # While it loads, Redis listens every two megabytes: to say that it does.
            world.redis.mset({f"padding{n}": "x" * 2**20 for n in range(30)})
            world.redis.config_set("rdbcompression", "no")
            world.redis.save()
            produce(world, _BEFORE, _BEFORE + _AFTER)  # which the file does not have
            wait_until(lambda: len(world.in_redis()) == _BEFORE + _AFTER and has_committed(world, service))
            server.kill()
            produce(world, 0, 1)
            wait_until(lambda: service.status().state == "waiting", what="the route to try again and again")
            server.start("--key-load-delay", "10000", wait=False)  # microseconds a key
            wait_until(lambda: says(service, "loading the dataset"), what="the route to wait for it")
            assert service.status().state == "waiting"
            wait_until(lambda: service.status().state == "running", what="the route to go on")
            wait_until(lambda: world.in_redis().keys() == ids(0, _BEFORE + _AFTER), what="all rows, nobody helping")
        assert service.status().counters["rewinds"] > 0
        assert world.dead_letters() == {}


def says(service: Running, text: str) -> bool:
    return text in (service.status().last_error or "")

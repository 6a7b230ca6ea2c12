"""From a topic to the stores: rows, deletes, restarts, versions."""

import pytest

from stores.external import RedisStore
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def test_rows_and_tombstones_reach_redis(world: SyncWorld) -> None:
    world.make_topic()
    world.produce(("a", {"plan": "pro", "rps": 1}), ("b", {"plan": None, "rps": 2}), ("c", {"plan": "x"}), ("c", None))
    with running(world.pipeline(world.to_redis())):
        wait_until(lambda: world.in_redis().keys() == {"a", "b"}, what="two rows")
        world.produce(("a", {"plan": "free", "rps": None}), ("d", {"plan": "d", "rps": 4}))
        wait_until(lambda: world.in_redis().get("a", {}).get("plan") == "free" and "d" in world.in_redis())
    found = {key: {k: v for k, v in row.items() if k != "_version"} for key, row in world.in_redis().items()}
    assert found == {"a": {"plan": "free"}, "b": {"rps": "2"}, "d": {"plan": "d", "rps": "4"}}
    assert world.redis.hget(f"{world.name}:c", "_deleted") == "1"
    assert world.redis.ttl(f"{world.name}:c") > 7 * 86_400


def test_rows_and_tombstones_reach_postgres(world: SyncWorld) -> None:
    world.make_topic()
    world.make_table()
    world.produce(("a", {"plan": "pro", "rps": 1}), ("b", {"plan": None, "rps": 2}), ("c", {"plan": "x"}), ("c", None))
    with running(world.pipeline(world.to_postgres())):
        wait_until(lambda: world.in_postgres().keys() == {"a", "b"}, what="two rows")
        world.produce(("a", {"plan": "free", "rps": None}))
        wait_until(lambda: world.in_postgres()["a"][0] == "free")
    assert {key: row[:2] for key, row in world.in_postgres().items()} == {"a": ("free", None), "b": (None, 2)}


def test_a_restart_goes_on_where_it_was(world: SyncWorld) -> None:
    world.make_topic()
    world.produce(("a", {"plan": "pro", "rps": 1}))
    with running(world.pipeline(world.to_redis())) as first:
        wait_until(lambda: "a" in world.in_redis())
    assert first.status().counters["records_read"] == 1
    world.produce(("b", {"plan": "pro", "rps": 1}))
    with running(world.pipeline(world.to_redis())) as second:
        wait_until(lambda: "b" in world.in_redis())
    assert second.status().counters["records_read"] == 1


def test_a_store_of_any_number_of_nodes_is_committed_for(world: SyncWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ",".join(f"{number:040x}" for number in range(200))  # brokers keep 4,096 bytes beside an offset
    monkeypatch.setattr(RedisStore, "incarnation", lambda _: nodes)
    world.make_topic(partitions=1)
    for number, plan in enumerate(("x", "y"), 1):
        world.produce(("a", {"plan": plan, "rps": 1}))
        with running(world.pipeline(world.to_redis())) as service:
            wait_until(lambda: world.in_redis().get("a", {}).get("plan") == plan)  # noqa: B023 - called at once
        assert world.committed() == {0: number}
        assert service.status().counters["records_read"] == 1  # the same store: nothing is read again

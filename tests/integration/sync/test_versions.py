"""Which of two versions is newer: by header, by a declared column, by place in the topic."""

import json

import pytest

from enrich.kafka import DeliveringProducer
from sync_service.reconcile import Reconciliation
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def produce(world: SyncWorld, key: str, row: dict[str, object] | None, version: int | None = None) -> None:
    headers = {} if version is None else {"enrich.version": str(version).encode()}
    with DeliveringProducer(world.cluster.connection) as producer:
        value = None if row is None else json.dumps(row).encode()
        producer.produce(world.topic, key.encode(), value, headers=headers)


def test_the_header_decides_even_when_the_topic_has_another_order(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    produce(world, "a", {"plan": "newest", "rps": 1}, 9)
    produce(world, "a", {"plan": "older", "rps": 2}, 7)
    produce(world, "b", None, 9)
    produce(world, "b", {"plan": "older", "rps": 2}, 8)
    produce(world, "end", {"plan": "x"})
    with running(world.pipeline(world.to_redis())):
        wait_until(lambda: "end" in world.in_redis())
    assert world.in_redis()["a"] == {"plan": "newest", "rps": "1", "_version": "9"}
    assert world.in_redis().keys() == {"a", "end"}


def test_a_declared_column_decides_and_a_tombstone_has_the_time_of_its_record(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    columns = "plan string, updated_at timestamp"
    world.produce(
        ("a", {"plan": "newest", "updated_at": "2024-05-01T00:00:00Z"}),
        ("a", {"plan": "older", "updated_at": "2024-04-01T00:00:00Z"}),
        ("b", {"plan": "gone", "updated_at": "2024-05-01T00:00:00Z"}),
        ("b", None),
        ("b", {"plan": "older than its end", "updated_at": "2024-06-01T00:00:00Z"}),
        ("end", {"plan": "x", "updated_at": "2024-05-01T00:00:00Z"}),
    )
    with running(world.pipeline(world.to_redis(), columns=columns, version="updated_at")):
        wait_until(lambda: "end" in world.in_redis())
    assert world.in_redis()["a"]["plan"] == "newest"
    assert world.in_redis().keys() == {"a", "end"}


@pytest.mark.parametrize("now", [None, "rps"])
def test_rows_that_another_column_orders_now_are_compared_before_the_route_goes_on(
    world: SyncWorld, now: str | None
) -> None:
    """By offsets, or small numbers, all updates would look older than the times that the rows have as versions."""
    world.make_topic(partitions=1)
    columns = "plan string, rps int, updated_at timestamp"

    def put(plan: str, number: int) -> None:
        world.produce(("a", {"plan": plan, "rps": number, "updated_at": f"2024-05-0{number}T00:00:00Z"}))

    put("first", 1)
    with running(world.pipeline(world.to_redis(), columns=columns, version="updated_at")):
        wait_until(lambda: "a" in world.in_redis())
    put("second", 2)
    pipeline = world.pipeline(world.to_redis(), columns=columns, **({} if now is None else {"version": now}))
    with running(pipeline) as service:
        wait_until(lambda: service.status().state == "held", what="the route to be held")
        assert "enrich sync reconcile out --repair" in (service.status().last_error or "")
        (plan,) = plans_of(pipeline)
        assert Reconciliation(plan, Clients(pipeline)).run(repair=True).agrees
        wait_until(lambda: service.status().state == "running", what="the route to go on")
        assert world.in_redis()["a"]["plan"] == "second"
        put("third", 3)
        wait_until(lambda: world.in_redis()["a"]["plan"] == "third", what="the update")


def test_a_route_goes_on_if_times_order_its_rows_where_offsets_did(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    columns = "plan string, updated_at timestamp"
    world.produce(("a", {"plan": "first", "updated_at": "2024-05-01T00:00:00Z"}))
    with running(world.pipeline(world.to_redis(), columns=columns)):
        wait_until(lambda: "a" in world.in_redis())
    world.produce(("a", {"plan": "second", "updated_at": "2024-05-02T00:00:00Z"}))
    with running(world.pipeline(world.to_redis(), columns=columns, version="updated_at")):
        wait_until(lambda: world.in_redis()["a"]["plan"] == "second", what="the update")


def test_a_tombstone_without_a_version_is_buried_where_versions_are_numbers(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.produce(("a", {"plan": "x", "rps": 5}), ("a", None), ("end", {"plan": "x", "rps": 1}))
    with running(world.pipeline(world.to_redis(), version="rps")):
        wait_until(lambda: "end" in world.in_redis())
        (letter,) = wait_until(lambda: list(world.dead_letters().values()))
    assert "needs the header enrich.version" in letter["enrich.reason"]
    assert letter["value"] == ""
    assert "a" in world.in_redis()


def test_a_topic_that_was_recreated_stops_its_route_and_names_the_command(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.produce(*((f"k{n}", {"plan": "first", "rps": n}) for n in range(20)))
    with running(world.pipeline(world.to_redis())) as service:
        wait_until(lambda: len(world.in_redis()) == 20)
        world.cluster.topics.delete(world.topic)
        wait_until(lambda: not world.cluster.topics.exists(world.topic))
        world.make_topic(partitions=1)
        world.produce(*((f"k{n}", {"plan": "second", "rps": n}) for n in range(20)))
        wait_until(lambda: service.status().state == "held", what="the route to be held")
        assert "enrich sync reconcile out --repair" in (service.status().last_error or "")
    assert {row["plan"] for row in world.in_redis().values()} == {"first"}


def test_more_partitions_stop_the_route_too(world: SyncWorld) -> None:
    world.make_topic(partitions=1)
    world.produce(("a", {"plan": "first", "rps": 1}))
    with running(world.pipeline(world.to_redis())) as service:
        wait_until(lambda: "a" in world.in_redis())
        world.add_partitions(3)
        wait_until(lambda: service.status().state == "held", what="the route to be held")
        assert "has 3 partitions and had 1" in (service.status().last_error or "")

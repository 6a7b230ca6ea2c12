"""A route that was away for longer than its topic keeps tombstones says so, and has its rows compared."""

import time
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from enrich.config import Pipeline
from enrich.delivery import committing
from enrich.delivery.partitions.positions import Committed
from enrich.kafka import new_admin_client, new_group_consumer, new_producer
from enrich.kafka.groups import committed
from sync_service.reconcile import Reconciliation, route
from sync_service.writeback.generation import Generation
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.kafka.topics import delete_records
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def has_committed(world: SyncWorld) -> bool:
    group = f"enrich.sync.{world.name}.out"
    with closing(new_group_consumer(world.cluster.connection, group)) as consumer:
        return bool(committed(consumer, group, world.topic, [0]))


def committed_days_ago(world: SyncWorld, days: float) -> None:
    """As if the service had stopped then."""
    group = f"enrich.sync.{world.name}.out"
    with closing(new_group_consumer(world.cluster.connection, group)) as consumer:
        (place,) = consumer.committed([TopicPartition(world.topic, 0)], timeout=30)
        known = Committed.from_text(place.metadata)
        assert known is not None and known.at_ms is not None
        assert abs(known.at_ms - time.time() * 1_000) < 600_000
        note = replace(known, at_ms=known.at_ms - round(days * 86_400_000)).to_text()
        consumer.commit(offsets=[TopicPartition(world.topic, 0, place.offset, note)], asynchronous=False)


def test_a_route_that_was_away_too_long_is_compared_until_it_agrees(
    world: SyncWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "_LOOK_S", 0.2)
    world.make_topic(partitions=1)
    pipeline = world.pipeline(world.to_redis(), reconcile="1d")
    world.produce(("a", {"plan": "x", "rps": 1}), ("b", {"plan": "x", "rps": 1}))
    with running(pipeline):
        wait_until(lambda: world.in_redis().keys() == {"a", "b"})
    committed_days_ago(world, 0.5)
    world.produce(("b", {"plan": "y", "rps": 1}))
    with running(pipeline) as service:  # not longer than the topic keeps them
        wait_until(lambda: world.in_redis()["b"]["plan"] == "y")
        assert not service.status().details["warnings"]
    committed_days_ago(world, 3)
    world.put_extra("deleted")
    world.produce(("b", {"plan": "z", "rps": 1}))
    with running(pipeline) as service:
        wait_until(lambda: world.in_redis()["b"]["plan"] == "z")
        (warning,) = wait_until(lambda: service.status().details["warnings"])
        assert "partition 0 was not read for 3 days" in warning and "enrich sync reconcile out" in warning
        wait_until(lambda: service.status("out.reconcile").gauges.get("differences") == 1, what="the comparison")
        by_hand = Reconciliation(plans_of(pipeline)[0], Clients(pipeline))
        assert by_hand.doubt() is not None  # a comparison that found something settles nothing
        assert by_hand.run(repair=True, yes=True).agrees
        wait_until(lambda: not service.status().details["warnings"], what="the end of the warning")
    with running(pipeline) as service:
        wait_until(lambda: service.status().lag == 0)
        assert not service.status().details["warnings"]
    assert world.in_redis().keys() == {"a", "b"}


def compared_days_ago(world: SyncWorld, days: float) -> None:
    """As if topic and store had been compared then."""
    name = f"enrich:sync:{world.name}.out"
    note = Generation.from_text(world.redis.get(name))
    assert note.compared_ms is not None
    world.redis.set(name, replace(note, compared_ms=note.compared_ms - round(days * 86_400_000)).to_text())


def comparing(world: SyncWorld, monkeypatch: pytest.MonkeyPatch, *, every: str) -> Pipeline:
    """A route to Redis with one row, whose note is looked at all the time."""
    monkeypatch.setattr(route, "_LOOK_S", 0.2)
    world.make_topic(partitions=1)
    world.produce(("a", {"plan": "x", "rps": 1}))
    return world.pipeline(world.to_redis(), reconcile=every)


def test_a_route_whose_offsets_kafka_has_forgotten_is_compared(
    world: SyncWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = comparing(world, monkeypatch, every="100d")
    admin = new_admin_client(world.cluster.connection)
    for days in (0, 9):
        with running(pipeline) as service:
            wait_until(lambda: "a" in world.in_redis() and service.status().lag == 0)
            assert not service.status().details["warnings"]
            wait_until(lambda: has_committed(world), what="offsets that Kafka can forget")
        compared_days_ago(world, days)
        for future in admin.delete_consumer_groups([f"enrich.sync.{world.name}.out"]).values():
            future.result(30)
    world.put_extra("deleted")
    with running(pipeline) as service:
        (warning,) = wait_until(lambda: service.status().details["warnings"])
        assert "has no offsets any more" in warning and "enrich sync reconcile out" in warning
        wait_until(lambda: service.status("out.reconcile").gauges.get("differences") == 1, what="the comparison")


def test_a_comparison_that_was_due_while_nobody_ran_is_made_soon_after_the_start(
    world: SyncWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = comparing(world, monkeypatch, every="1d")
    with running(pipeline):
        wait_until(lambda: "a" in world.in_redis())
    compared_days_ago(world, 2)
    with running(pipeline) as service:
        wait_until(lambda: service.status("out.reconcile").counters["reconciliations"] == 1, what="the comparison")
    compared_ms = Generation.from_text(world.redis.get(f"enrich:sync:{world.name}.out")).compared_ms
    assert compared_ms is not None and time.time() * 1_000 - compared_ms < 600_000


def test_records_that_were_removed_unread_are_told(world: SyncWorld) -> None:
    world.cluster.topics.create(world.topic, config={"cleanup.policy": "compact,delete"})
    pipeline = world.pipeline(world.to_redis())
    world.produce(("a", {"plan": "x", "rps": 1}))
    with running(pipeline):
        wait_until(lambda: "a" in world.in_redis())
    world.produce(("a", {"plan": "y", "rps": 1}), ("b", {"plan": "y", "rps": 1}), ("c", {"plan": "y", "rps": 1}))
    delete_records(world.cluster.connection, world.topic, {0: 3})
    with running(pipeline) as service:
        wait_until(lambda: "c" in world.in_redis())
        told = "records 1 to 3 of partition 0 were removed unread"
        wait_until(lambda: any(told in warning for warning in service.status().details["warnings"]))
        assert service.status().state == "running"


def test_marks_of_transactions_are_no_news(world: SyncWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand behind the last record, and nobody is handed them."""
    monkeypatch.setattr(committing, "_ALIVE_MS", 1)
    world.make_topic(partitions=1)
    producer = new_producer(world.cluster.connection, **{"transactional.id": world.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(world.topic, b'{"plan": "x", "rps": 1}', b"a")
    producer.commit_transaction(30)
    with running(world.pipeline(world.to_redis())):
        wait_until(lambda: "a" in world.in_redis())
    committed_days_ago(world, 3)

    def is_alive() -> bool:
        with closing(new_group_consumer(world.cluster.connection, f"enrich.sync.{world.name}.out")) as consumer:
            (place,) = consumer.committed([TopicPartition(world.topic, 0)], timeout=30)
        known = Committed.from_text(place.metadata)
        return known is not None and known.at_ms is not None and time.time() * 1_000 - known.at_ms < 86_400_000

    with running(world.pipeline(world.to_redis())):
        wait_until(is_alive, what="another commit without news")

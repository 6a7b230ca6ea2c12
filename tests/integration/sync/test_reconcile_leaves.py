"""What reconciliation leaves alone: rows that are not the route's, and rows that may be newer than the topic."""

import json
from typing import Any

import pytest

from enrich.base.errors import WouldLoseData
from enrich.kafka import DeliveringProducer
from sync_service.reconcile import Reconciliation, Report
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.kafka.topics import delete_records
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def reconcile(world: SyncWorld, to: dict[str, Any], **options: Any) -> Report:
    pipeline = world.pipeline(to)
    return Reconciliation(plans_of(pipeline)[0], Clients(pipeline)).run(**{"repair": False, **options})


def written(world: SyncWorld, to: dict[str, Any], records: int) -> None:
    with running(world.pipeline(to)) as service:
        wait_until(lambda: service.status().counters["records_read"] == records and service.status().lag == 0)


@pytest.mark.parametrize("kind", ["hash", "json", "postgres"])
def test_rows_that_nobody_of_ours_wrote_are_named_and_never_touched(world: SyncWorld, kind: str) -> None:
    world.make_topic(partitions=1)
    to = world.to_redis(**{"as": kind})
    if kind == "postgres":
        world.make_table()
        world.postgres.execute(f"ALTER TABLE {world.name} ALTER version DROP NOT NULL, ALTER deleted DROP NOT NULL")
        to = world.to_postgres()
    world.produce(("a", {"plan": "x", "rps": 1}), ("gone", {"plan": "x", "rps": 1}), ("gone", None))
    written(world, to, 3)

    def others() -> list[Any]:
        if kind == "postgres":
            read = f"SELECT * FROM {world.name} WHERE version IS NULL ORDER BY id"  # noqa: S608 - our own name
            return list(world.postgres.execute(read))
        command = world.redis.hgetall if kind == "hash" else world.redis.get
        return [command(f"{world.name}:{key}") for key in ("gone", "sessions")]

    for key in ("sessions", "gone"):
        if kind == "postgres":
            insert = f"INSERT INTO {world.name} (id, plan) VALUES (%s, 'other') "  # noqa: S608 - the same
            insert += "ON CONFLICT (id) DO UPDATE SET version = NULL, deleted = NULL"
            world.postgres.execute(insert, [key])
        elif kind == "hash":
            world.redis.delete(f"{world.name}:{key}")
            world.redis.hset(f"{world.name}:{key}", mapping={"user": "other"})
        else:
            world.redis.set(f"{world.name}:{key}", json.dumps({"user": "other"}))
    before = others()
    report = reconcile(world, to, repair=True, yes=True)
    assert (report.agrees, report.foreign, sorted(report.some_foreign)) == (True, 2, [b"gone", b"sessions"])
    assert others() == before and all(before)


def test_what_the_store_may_know_better_is_told_and_left(world: SyncWorld) -> None:
    """Of two records of a key compaction keeps the later one, though it may be the older version."""
    world.cluster.topics.create(world.topic, config={"cleanup.policy": "compact,delete"})
    good, bad = b'{"plan": "kept", "rps": 1}', b"{"
    first = [("late", 300, good), ("late-tombstone", 300, good), ("late-row", 300, None), ("bad", 300, good)]
    second = [("late", 100, good), ("late-tombstone", 100, None), ("late-row", 100, good), ("bad", 400, bad)]
    with DeliveringProducer(world.cluster.connection) as producer:
        for key, version, value in [*first, *second, ("fine", 1, good)]:
            producer.produce(world.topic, key.encode(), value, headers={"enrich.version": str(version).encode()})
    written(world, world.to_redis(), 9)
    before = world.everything()
    assert before == {
        key: (version, "kept", 1)
        for key, version in (("late", 300), ("late-tombstone", 300), ("bad", 300), ("fine", 1))
    }
    delete_records(world.cluster.connection, world.topic, {0: 4})
    report = reconcile(world, world.to_redis(), repair=True, yes=True)
    assert {one.key: one.kind for one in report.differences} == {
        b"late": "newer",
        b"late-tombstone": "newer",
        b"late-row": "newer",
        b"bad": "unwritable",
    }
    assert (report.left, report.repaired, report.agrees) == (4, False, False)
    assert world.everything() == before
    # Who asks for it gets what the topic says.
    with pytest.raises(WouldLoseData, match="would delete 1 rows"):
        reconcile(world, world.to_redis(), repair=True, raise_generation=True)
    reconcile(world, world.to_redis(), repair=True, raise_generation=True, yes=True)
    assert world.everything() == {
        "late": (100, "kept", 1),
        "late-row": (100, "kept", 1),
        "bad": (300, "kept", 1),
        "fine": (1, "kept", 1),
    }

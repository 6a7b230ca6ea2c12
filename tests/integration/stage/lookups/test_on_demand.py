"""A stage whose table is loaded on demand: an event waits for just its row, or goes on, and the next one finds it."""

import json

import pytest

from tests.support.servers.rows_by_key import rows_by_key
from tests.support.stage.frames import records, seen
from tests.support.stage.world import StageWorld
from tests.support.waiting import wait_until

USER = {"table": "accounts", "key": "user_id", "as": "account"}


@pytest.fixture
def source():
    with rows_by_key(ann={"plan": "free"}, bob={"plan": "pro"}) as source:
        yield source


@pytest.fixture
def world(cluster, tmp_path, source):
    world = StageWorld(cluster, tmp_path)
    accounts = {"loader": {"http": source.url}, "on_demand": True, "columns": "plan string"}
    world.document["tables"] = {"accounts": accounts, "impatient": {**accounts, "freshness": {"deadline": "1s"}}}
    world.stage("waits", [{**USER, "on_miss": "wait", "then": "dlq"}], topics="all")
    world.stage("waits-a-second", [{**USER, "table": "impatient", "on_miss": "wait", "then": "dlq"}], topics="all")
    world.stage("goes-on", [USER], topics="all")
    yield world
    world.close()


def outcome(spark, world, stage, *users):
    """Of each event where it went, and its object."""
    events = [json.dumps({"user_id": user}).encode() for user in users]
    found = seen(records(spark, world, stage, events).collect())
    return [(topic, json.loads(value).get("account")) for _, (topic, value, _) in sorted(found.items())]


def test_an_event_waits_for_just_its_row(spark, world, source):
    found = outcome(spark, world, "waits", "ann", "nobody", "ann", "bob")
    free, pro = ("out", {"plan": "free"}), ("out", {"plan": "pro"})
    assert found == [free, ("dlq", None), free, pro]
    assert source.asked == {"ann": 1, "nobody": 1, "bob": 1}
    source.gate.clear()
    assert outcome(spark, world, "waits-a-second", "ann") == [("dlq", None)]
    assert outcome(spark, world, "waits", "bob") == [pro]


def test_without_waiting_events_go_on_whatever_the_source_does_and_later_ones_find_the_row(spark, world, source):
    source.gate.clear()
    assert outcome(spark, world, "goes-on", "ann", "ann") == [("out", None)] * 2
    source.gate.set()
    wait_until(lambda: outcome(spark, world, "goes-on", "ann") == [("out", {"plan": "free"})], what="the row")
    assert source.asked["ann"] == 1

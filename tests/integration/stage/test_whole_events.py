"""JSON events that are joined whole in the worker, beside the same stages with Spark to read and write them."""

from typing import Any
from unittest.mock import patch

import pytest

from enrich.stage.event_size import mean_event_bytes
from enrich.stage.plan import StagePlan
from tests.support.seed import random_source, rounds
from tests.support.stage_events import BAD_EVENTS, GOOD_SHAPES, random_event
from tests.support.stage_frames import VERSIONS, python_operators, source_of
from tests.support.stages import StageWorld

ROWS = {
    "ann": {"plan": 'a "quoted" one\n', "n": 5, "on": True, "day": "2026-02-28", "tags": ["é", None], "at": {"x": 1}},
    "bob": {"plan": None, "n": -(2**40), "on": None, "day": None, "tags": None, "at": None},
    "5": {"plan": "five", "n": 0, "on": False, "day": "1970-01-01", "tags": [], "at": {"x": None}},
    '["ann",5]': {"plan": "both", "n": 1, "on": True, "day": None, "tags": ["\\"], "at": None},
    "gone": None,
}
COLUMNS = "plan string, n bigint, on boolean, day date, tags array<string>, at struct<x:int>"
SCHEMA = "user_id string, ip string, n bigint, small tinyint, on boolean, ts timestamp"
USER = {"table": "rows", "key": "user_id", "as": "user"}
STAGES: dict[str, dict[str, Any]] = {
    "plain": {"lookups": [USER]},
    "policies": {"lookups": [{**USER, "on_miss": "dlq"}, {**USER, "key": "ip", "as": "address", "on_miss": "drop"}]},
    "numbers": {"lookups": [{**USER, "key": "n", "as": "by_n"}, {**USER, "key": "small", "as": "by_small"}]},
    "composite": {"lookups": [{**USER, "key": ["user_id", "n"], "as": "both"}], "lineage": True},
    "lineage": {"lookups": [USER, {**USER, "key": "ip", "as": "address", "on_miss": "dlq"}], "lineage": True},
    "defaults": {"lookups": [{**USER, "on_miss": "default", "default": {"plan": "none"}, "select": ["plan", "at"]}]},
    "waiting": {"lookups": [{**USER, "on_miss": "wait", "then": "dlq"}]},
}
EVALUATED: dict[str, tuple[str, dict[str, Any]]] = {
    "expression": ("a key", {"lookups": [{**USER, "key": "lower(user_id)"}]}),
    "literal": ("a key", {"lookups": [{**USER, "key": "'ann'"}]}),
    "other-case": ("a key", {"lookups": [{**USER, "key": "USER_ID"}]}),
    "own-time": ("the event_time", {"lookups": [{**USER, "on_miss": "wait"}], "event_time": "ts"}),
    "constant-time": ("the event_time", {"lookups": [{**USER, "as_of": True}], "event_time": "timestamp'2026-01-01'"}),
    "time-of-key": ("the event_time", {"lookups": [{**USER, "as_of": True}], "event_time": "to_timestamp(user_id)"}),
    "boolean": ("the field on", {"lookups": [{**USER, "key": ["user_id", "on"]}]}),
    "writes-back": ("it writes back", {"lookups": [USER], "writeback": {"topic": "back", "value": "user_id"}}),
    "prices": ("the table prices", {"lookups": [{**USER, "table": "prices"}]}),
    "nothing": ("there is nothing", {"lookups": []}),
}
"""What Spark is needed for, as the stage says it."""

EVENTS = (
    b'{"user_id":"ann","n":5,"small":5}',
    b'{"user_id":"ann","n":"5","small":300}',
    b'{"user_id":"ann","n":5.0,"small":-1}',
    b'{"user_id":["ann",5],"n":true}',
    b'{"user_id":{"a" : [1, "x"]},"n":99999999999999999999}',
    b'{"user_id":true,"ip":12345678901234567890123}',
    b'{"user_id":"\\ud800","ip":"\\u0041nn"}',
    b'{"user_id":"ann","d":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
)


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("whole"))
    world.table("rows", COLUMNS, ROWS, history="1h")
    world.table("prices", "price double", {"ann": {"price": 1.5}})
    for name, section in [*STAGES.items(), *((name, section) for name, (_, section) in EVALUATED.items())]:
        stage = world.stage(name, topics="all", **section)
        world.document["stages"][stage]["source"]["schema"] = SCHEMA
    yield world
    world.close()


def plan_of(spark, world, name):
    return StagePlan(spark, world.pipeline, name, source=VERSIONS)


def by_place(frame):
    return {
        bytes(row.key): (row.topic, bytes(row.value), [(each.key, bytes(each.value)) for each in row.headers or []])
        for row in frame.collect()
    }


@pytest.mark.parametrize("name", STAGES)
def test_records_are_the_same_whoever_reads_and_writes_the_events(spark, world, name):
    source = random_source("whole events")
    events = [
        *(BAD_EVENTS + GOOD_SHAPES + EVENTS),
        *(random_event(source, list(ROWS)) for _ in range(rounds(200, 10_000))),
    ]
    frame = source_of(spark, events)
    with patch("enrich.stage.plan.whole_events", lambda *_: None):
        evaluated = plan_of(spark, world, name)
    whole = plan_of(spark, world, name)
    assert (evaluated.joined_by == "workers", whole.joined_by) == (False, "workers")
    made = whole.records(frame)
    found = by_place(made)
    assert python_operators(made) == [("ArrowEvalPython", len(events))]
    expected = by_place(evaluated.records(frame))
    assert found.keys() == expected.keys()
    for place, record in expected.items():
        assert found[place] == record
    assert any(topic.endswith(".out") for topic, _, _ in found.values()), "no event was forwarded"


@pytest.mark.parametrize("name", EVALUATED)
def test_spark_reads_and_writes_where_there_is_something_to_evaluate(spark, world, name):
    assert plan_of(spark, world, name).joined_by.startswith(f"Spark, since {EVALUATED[name][0]}")


def test_large_events_are_left_to_spark_as_far_as_the_newest_ones_tell(spark, world):
    topic = world.topic("all.in")

    def typical():
        return mean_event_bytes(world.cluster.connection, topic)

    assert typical() == 0
    world.cluster.produce(topic, [(str(number).encode(), b"x" * 5_000) for number in range(100)])
    assert typical() == 5_000
    world.cluster.produce(topic, [(str(number).encode(), b"x" * 200) for number in range(400)])
    assert typical() == 200
    large = StagePlan(spark, world.pipeline, "plain", source=VERSIONS, event_bytes=lambda: 5_000)
    assert large.joined_by == "Spark, since its events are large: 5000 bytes"

"""A stage whose workers write the records themselves makes the same records as one where Spark does."""

import json
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Message
from pyspark.sql import functions as sql

from enrich.admin.rejected.letter import letter_of
from enrich.base.errors import BadRecord, ConfigError
from enrich.config import load_text
from enrich.kafka.columnar import HEADERS, Came
from enrich.kafka.identity import identity_of, origin_of
from enrich.stage.plan.limits import Limits
from enrich.stage.plan.plan import StagePlan
from enrich.stage.realtime.pieces import columns_of
from tests.support.seed import random_source, rounds, variants
from tests.support.stage.events import BAD_EVENTS, GOOD_SHAPES, random_event
from tests.support.stage.frames import _headers, source_of
from tests.support.stage.world import USERS, StageWorld

USER = {"table": "users", "key": "user_id", "as": "user"}
LIMITS = Limits(sink=4_000, dlq=6_000)
STAGES = ["plain", "sink", "lineage", "time", "release", "routes", "own", "text", "avro", "masked-sink", "masked-own"]
MASKS = {
    "key": "a secret of the tests",
    "events": {"user_id": "show", "ip": "hmac", "ts": "show"},
    "*.table.users": {"plan": "show", "region": "hmac"},
}


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("by-workers"))
    world.users()
    world.stage("plain", [], topics="all")
    world.stage(
        "sink", [{**USER, "on_miss": "drop"}, {**USER, "key": "ip", "as": "more", "on_miss": "dlq"}], topics="all"
    )
    world.stage("lineage", [USER], topics="all", lineage=True, normalize={"ip": "upper(ip)"})
    world.stage("time", [], topics="all", event_time="ts")
    world.stage("no-dlq", [], topics="all", dlq=False)
    world.stage("spark", [{**USER, "key": "sha1(user_id)"}], topics="all")
    world.stage("routes", [USER], topics="all", otherwise="dlq")
    world.stage("own", [USER], topics="all", otherwise="drop")
    world.stage("text", [], topics="all")
    world.stage("avro", [USER], topics="all")
    stages = world.document["stages"]
    for name, routes in {
        "routes": [
            {"name": "pro", "when": "user.plan = 'pro'", "topic": world.topic("all.pro")},
            {
                "name": "known",
                "when": "user.plan IS NOT NULL",
                "select": "struct(ip)",
                "topic": world.topic("all.known"),
            },
            {"name": "one", "when": "ip = 'bob'", "select": "nullif(ip, 'bob')", "topic": world.topic("all.one")},
        ],
        "own": [
            {
                "name": "keyed",
                "when": "user_id IS NOT NULL",
                "topic": world.topic("all.keyed"),
                "key": "user_id",
                "headers": {"plan": "user.plan", "ip": "ip"},
            },
            {"name": "all", "topic": world.topic("all.all")},
        ],
    }.items():
        del stages[name]["sink"]
        stages[name]["routes"] = routes
    for stage in stages.values():
        stage["source"] = {**stage["source"], "topic": "events"}
    stages["text"]["source"] = {"topic": "events", "format": "string"}
    schema = {"type": "record", "name": "event", "fields": [{"name": "user_id", "type": "string"}]}
    stages["avro"]["source"] = {"topic": "events", "format": "avro", "schema": json.dumps(schema)}
    yield world
    world.close()


@pytest.fixture(scope="module")
def events():
    source = random_source("by workers")
    large = json.dumps({"user_id": "bob", "x": "x" * 50_000}).encode()
    some = [random_event(source, [*USERS]) for _ in range(rounds(200, 5_000))]
    in_avro = [b"\x06ann", b"\x08gone", b"\x00"]
    return [
        *BAD_EVENTS,
        *GOOD_SHAPES,
        *some,
        *in_avro,
        large,
        b'{"user_id":"ann","ip":"bob","ts":"2026-01-01T00:00:00.123456Z"}',
    ]


def came_of(events, headers_of=_headers):
    count = len(events)
    headers = [[{"key": name.encode(), "value": value} for name, value in headers_of(n) or []] for n in range(count)]
    return Came(
        ["events"],
        np.zeros(count, np.int32),
        (np.arange(count) % 3).astype(np.int32),
        np.arange(count),
        np.full(count, 1_000),
        pa.array([f"k{n}".encode() for n in range(count)], pa.binary()),
        pa.array(events, pa.binary()),
        pa.array(headers, HEADERS),
    )


def plan_of(spark, world, name):
    pipeline = world.pipeline
    if name == "release":
        pipeline, name = pipeline.model_copy(update={"release": 7}), "plain"
    if name.startswith("masked-"):
        name = name.removeprefix("masked-")
        only = {"masks": MASKS, "stages": {name: world.document["stages"][name]}}
        pipeline = load_text(json.dumps({**world.document, **only}))
    return StagePlan(spark, pipeline, name, LIMITS, source_ids={"events": "an-id"})


def by_workers(plan, came):
    worker = plan.by_workers()
    made = worker.leaving.records(worker.operator.begin(None)(columns_of(came)))
    for records in made:
        for at in range(len(records)):
            headers = [(each["key"].decode(), each["value"]) for each in records.headers[at].as_py()]
            topic = records.topics[records.topic[at]]
            yield topic, records.keys[at].as_py(), records.values[at].as_py(), headers


def row_of(row):
    headers = [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers or []]
    return row.topic, row.key and bytes(row.key), row.value if row.value is None else bytes(row.value), headers


@pytest.mark.parametrize("name", variants(*STAGES, take=len(STAGES) // 2))
def test_the_records_are_those_that_spark_makes(spark, world, events, name):
    plan = plan_of(spark, world, name)
    expected = sorted(map(row_of, plan.records(source_of(spark, events)).collect()), key=repr)
    found = sorted(by_workers(plan, came_of(events)), key=repr)
    assert len({topic for topic, *_ in expected}) > (name != "masked-sink")
    assert found == expected


def test_what_is_no_origin_is_not_passed_on_as_one(spark, world):
    """Else each node would name the event by another place, and it would be called lost between them. As it would if of
    two origins each took another one."""
    wrong = [
        b"somewhere",
        b"",
        None,
        b"p/00/1",
        b"p/0/01",
        b"\xff/0/1",
        b"p/0/1\n",
        b"p/0/1 ",
        b"p/-1/1",
        b"p/0/" + b"9" * 30,
    ]
    right = [b"first/0/0", b"first/12/%d" % 10**17]
    brought = [*wrong, *right]

    def headers_of(number):
        return [("trace", b"t"), ("enrich.origin", brought[number]), ("enrich.origin", b"another/0/7")]

    events = [b"{}"] * len(brought)
    plan = plan_of(spark, world, "plain")
    with patch("tests.support.stage.frames._headers", headers_of):
        source = source_of(spark, events)
    expected = sorted(map(row_of, plan.records(source).collect()), key=repr)
    assert sorted(by_workers(plan, came_of(events, headers_of)), key=repr) == expected
    found = {int(key[1:]): headers for _, key, _, headers in expected}
    for number, content in enumerate(brought):
        origin = content if content in right else b"events/%d/%d" % (number % 3, number)
        first = next(value for name, value in found[number] if name == "enrich.origin")
        assert first == origin
        assert identity_of(found[number])[0] == origin_of(origin)


def test_a_letter_without_its_whole_key_or_its_headers_says_so(spark, world):
    """Else a replay would send the event back under another key, or without headers, and remove the letter."""
    keys = [b"k0", b"k" * 70_000, b"k2"]

    def headers_of(number):
        return [("trace", b"t"), ("more", b"x" * (99_000 if number == 2 else 1))]

    events = [b"garbage"] * 3
    plan = StagePlan(spark, world.pipeline, "plain", Limits(sink=4_000, dlq=100_000), source_ids={"events": "an-id"})
    with patch("tests.support.stage.frames._headers", headers_of):
        source = source_of(spark, events)
    long = "CASE WHEN offset = 1 THEN CAST(repeat('k', 70000) AS binary) ELSE key END"
    expected = sorted(map(row_of, plan.records(source.withColumn("key", sql.expr(long))).collect()), key=repr)
    came = replace(came_of(events, headers_of), keys=pa.array(keys, pa.binary()))
    assert sorted(by_workers(plan, came), key=repr) == expected
    letters = [
        letter
        for topic, key, value, headers in expected
        if (letter := letter_of("dlq", Message(topic, 0, 0, key, value, headers)))
    ]
    assert [(each.offset, each.is_cut, each.value) for each in letters] == [
        (0, False, b"garbage"),
        (1, True, b"garbage"),
        (2, True, b"garbage"),
    ]
    assert dict(expected[2][3])["enrich.headers_left_out"] == b"2"


def test_an_event_that_cannot_be_processed_ends_a_stage_without_dlq(spark, world):
    with pytest.raises(BadRecord, match="no DLQ: the event is not a JSON object") as raised:
        list(by_workers(plan_of(spark, world, "no-dlq"), came_of([b"{}", b"garbage"])))
    assert raised.value.where == "topic/partition/offset events/1/1"


def test_what_only_spark_evaluates_is_refused_with_the_profile_that_can(spark, world):
    with pytest.raises(ConfigError, match="sha1") as raised:
        plan_of(spark, world, "spark").by_workers()
    assert raised.value.where == "stages.spark.profile"
    assert "latency" in str(raised.value.next_step)

"""Events that a broker, or Spark, refuses for good: none of them may hold a stage up without a word."""

import json

import pytest

from enrich.base.errors import BadRecord
from enrich.kafka import new_producer
from enrich.stage.progress.starting import From
from tests.support.seed import random_source, variants
from tests.support.stage.runs import Run, running
from tests.support.waiting import wait_until

NO_KEY = "a record without a key, and its topic is compacted"


def written(world, topic):
    return sorted((message.key(), message.value()) for message in world.cluster.messages(world.topic(topic)))


def reasons(world, stage):
    return sorted(dict(letter.headers())["enrich.reason"].decode() for letter in world.dead_letters(stage))


@pytest.mark.parametrize("profile", ["latency", "realtime"])
def test_an_event_without_a_key_for_a_compacted_sink_is_a_dead_letter(spark, world, profile):
    world.topic("enrich.out", cleanup_policy="compact")
    stage = world.stage("enrich", [], profile=profile)
    world.cluster.produce(world.topic("enrich.in"), [(key, b'{"id":1}') for key in (b"a", None, b"b")])
    with running(spark, world, stage) as run:
        wait_until(lambda: run.error or len(written(world, "enrich.out")) == 2, what="the events with a key")
        wait_until(lambda: run.error or world.dead_letters(stage), what="the dead letter")
        run.stop.set()
        assert run.end() is None
    assert [key for key, _ in written(world, "enrich.out")] == [b"a", b"b"]
    assert reasons(world, stage) == [NO_KEY]


@pytest.mark.parametrize("profile", variants("latency", "realtime"))
def test_on_routes_it_is_one_too_and_so_is_a_tombstone(spark, world, profile):
    stage = world.stage("enrich", [], profile=profile)
    section = world.document["stages"][stage]
    section["source"]["tombstones"] = "forward"
    del section["sink"]
    section["routes"] = [
        {"name": "own", "when": "user_id IS NOT NULL", "key": "user_id", "topic": world.topic("own")},
        {"name": "all", "topic": world.topic("all", cleanup_policy="compact,delete")},
    ]
    source = world.topic("enrich.in")
    some = {"user_id": "u"}, {"user_id": "u"}, {"n": 1}, None, None
    values = [None if each is None else json.dumps(each).encode() for each in some]
    world.cluster.produce(source, zip([b"a", None, b"b", b"c", None], values, strict=True))
    with running(spark, world, stage) as run:
        wait_until(lambda: run.error or len(written(world, "all")) == 3, what="the events with a key")
        wait_until(lambda: run.error or len(world.dead_letters(stage)) == 2, what="the dead letters")
        run.stop.set()
        assert run.end() is None
    assert written(world, "all") == [(b"a", values[0]), (b"b", values[2]), (b"c", None)]
    assert written(world, "own") == [(b"u", values[0])]
    assert reasons(world, stage) == [f"route all: {NO_KEY}"] * 2


@pytest.mark.parametrize("profile", variants("latency", "realtime"))
def test_a_tombstone_that_is_too_large_for_a_topic_of_its_routes_is_a_dead_letter(spark, world, profile):
    stage = world.stage("enrich", [], profile=profile)
    section = world.document["stages"][stage]
    section["source"]["tombstones"] = "forward"
    del section["sink"]
    section["routes"] = [
        {"name": "all", "topic": world.topic("all")},
        {"name": "few", "topic": world.topic("few", max_message_bytes="4000")},
    ]
    source, large = world.topic("enrich.in"), random_source("what no codec makes smaller").randbytes(8_000)
    world.cluster.produce(source, [(b"a", None)])
    world.cluster.produce(source, [(b"b", None)], headers=[("large", large)])
    with running(spark, world, stage) as run:
        for name in ("all", "few"):
            wait_until(lambda: run.error or written(world, name), what="the other tombstone")  # noqa: B023 - at once
        wait_until(lambda: run.error or world.dead_letters(stage), what="the dead letter")
        run.stop.set()
        assert run.end() is None
    assert written(world, "all") == written(world, "few") == [(b"a", None)]
    assert reasons(world, stage) == ["route few: the record is too large for its topic"]


@pytest.mark.parametrize("replay", variants("latest", "deterministic"))
def test_an_event_whose_time_spark_cannot_read_is_named_and_realtime_takes_it(spark, world, replay):
    world.topic("enrich.in", message_timestamp_after_max_ms=str(2**63 - 1))
    stage = world.stage("enrich", [], replay=replay)
    section = world.document["stages"][stage]
    producer = new_producer(world.cluster.connection)

    def send(number, **when):
        producer.produce(world.topic("enrich.in"), json.dumps({"id": number}).encode(), partition=1, **when)
        assert producer.flush(30) == 0

    send(0)
    with running(spark, world, stage) as run:
        wait_until(lambda: run.error or world.seen(stage).keys() == {0}, what="the first event")
        wait_until(lambda: run.error or world.committed(stage), what="the group's offsets")
        send(1)
        send(2, timestamp=10**17)
        send(3)
        first = run.end()
    for error in (first, Run(spark, world, stage).end()):
        assert isinstance(error, BadRecord), error
        assert error.where == f"topic {world.topic('enrich.in')}, partition 1, offset 2"
        assert str(10**17) in error.what
    section |= {"profile": "realtime", "replay": "latest", "checkpoint": section["checkpoint"] + "-realtime"}
    with running(spark, world, stage, From.parse("group")) as run:
        wait_until(lambda: run.error or world.seen(stage).keys() == {0, 1, 2, 3}, what="all events")
        run.stop.set()
        assert run.end() is None

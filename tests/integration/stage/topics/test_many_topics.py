"""A stage that reads many topics, by a list or a pattern: nothing of any of them is left out, whenever it comes."""

import json
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError, Retryable, WouldLoseData
from enrich.kafka.records import headers_of, key_of
from enrich.stage.progress.source_topics import NAME
from enrich.stage.progress.starting import From
from tests.integration.stage.measure.test_metrics import scraped
from tests.support.kafka.topics import delete_records
from tests.support.ports import free_port
from tests.support.stage.runs import Run, refused, run_until, running, until_all
from tests.support.waiting import wait_until

SCHEMA = {"format": "json", "schema": "user_id string"}


def text_of(path: Path) -> str:
    """Empty while the file is being replaced."""
    with suppress(FileNotFoundError):
        return path.read_text()
    return ""


def send(world, name, ids, **fields):
    values = [json.dumps({"id": number, "user_id": "ann", **fields}).encode() for number in ids]
    world.cluster.produce(
        world.topic(name), [(b"%d" % number, value) for number, value in zip(ids, values, strict=True)]
    )


def read_topics(world, *names, **section):
    """A stage of these topics; once more for other topics of the same stage."""
    topics = [world.topic(name) for name in names]
    return world.stage("enrich", [], source={"topics": topics, **SCHEMA}, **section)


def read_pattern(world, text, **section):
    pattern = f"{world.document['name']}\\.{text}"
    return world.stage("enrich", [], source={"topic_pattern": pattern, **SCHEMA}, **section)


def committed(world, stage, *names):
    """What the stage's group has of each topic."""
    topics = [world.topic(name) for name in names]
    with closing(world.progress(stage)) as progress:
        return {topic: progress.committed(topic, world.cluster.topics.partitions(topic)) for topic in topics}


def ends(world, *names):
    return {world.topic(name): world.cluster.topics.end_offsets(world.topic(name)) for name in names}


def until_ids(world, stage, ids, run):
    until_all(world, stage, len(ids), run)
    assert world.ids(stage) == Counter(ids)


def test_all_topics_of_a_list_come_out_in_one_and_fields_that_a_topic_lacks_are_null(spark, world):
    world.table("users", "plan string", {"ann": {"plan": "free"}})
    world.table("ads", "price int", {"x": {"price": 5}})
    lookups = [{"table": "users", "key": "user_id", "as": "user"}, {"table": "ads", "key": "ad", "as": "sold"}]
    topics = [world.topic("plays"), world.topic("ads")]
    schemas = {topics[0]: "user_id string", topics[1]: "user_id string, ad string"}
    source = {"topics": topics, "format": "json", "schemas": schemas}
    port = free_port()
    stage = world.stage("enrich", lookups, source=source, metrics_port=port)
    send(world, "plays", range(10))
    send(world, "ads", range(10, 15), ad="x")
    with running(spark, world, stage) as run:
        until_all(world, stage, 15, run)
        wait_until(lambda: scraped(port)[1].get(("enrich_stage_events_total",)) == 15, what="the metrics")
        behind = {key[1:]: value for key, value in scraped(port)[1].items() if key[0] == "enrich_stage_events_behind"}
        assert behind == {(topic,): 0 for topic in topics}
        run.stop.set()
        assert run.end() is None
    told = {event["id"]: (event["user"], event["sold"]) for event in world.output(stage)}
    free = {"plan": "free"}
    assert told == {number: (free, None if number < 10 else {"price": 5}) for number in range(15)}
    records = world.cluster.messages(world.topic("enrich.out"))
    origins = Counter((dict(headers_of(each))["enrich.origin"] or b"").split(b"/")[0].decode() for each in records)
    assert origins == {topics[0]: 10, topics[1]: 5}
    assert committed(world, stage, "plays", "ads") == ends(world, "plays", "ads")


def test_a_topic_that_is_added_is_read_from_its_beginning_also_if_that_is_deleted(spark, world):
    stage = read_topics(world, "a")
    send(world, "a", range(10))
    run_until(spark, world, stage, 10)
    send(world, "a", range(10, 15))
    send(world, "b", range(100, 110))
    send(world, "c", range(200, 230))
    delete_records(
        world.cluster.connection, world.topic("c"), dict.fromkeys(world.cluster.topics.partitions(world.topic("c")), 4)
    )
    read_topics(world, "a", "b", "c")
    left = {json.loads(message.value())["id"] for message in world.cluster.messages(world.topic("c"))}
    assert len(left) == 22
    with running(spark, world, stage) as run:
        until_ids(world, stage, [*range(15), *range(100, 110), *left], run)
    assert committed(world, stage, "a", "b", "c") == ends(world, "a", "b", "c")
    run_until(spark, world, stage, 47)
    assert world.ids(stage).total() == 47


def test_a_topic_that_is_removed_is_refused_until_somebody_goes_on_without_it(spark, world):
    stage = read_topics(world, "a", "b")
    send(world, "a", range(10))
    send(world, "b", range(100, 110))
    run_until(spark, world, stage, 20)
    send(world, "a", range(10, 15))
    send(world, "b", range(110, 115))
    read_topics(world, "a")
    error = refused(spark, world, stage)
    assert f"offsets of the topic {world.topic('b')}" in error.what
    assert "--from group" in str(error.next_step)
    assert world.ids(stage).total() == 20
    world.lose_checkpoint(stage)
    with running(spark, world, stage, From.parse("group")) as run:
        until_ids(world, stage, [*range(15), *range(100, 110)], run)


def test_one_of_two_topics_that_is_made_again_is_told_at_a_start_and_while_the_stage_runs(spark, world):
    stage = read_topics(world, "a", "b")
    send(world, "a", range(10))
    send(world, "b", range(100, 110))
    run_until(spark, world, stage, 20)
    world.cluster.make_again(world.topic("b"), partitions=2)
    send(world, "b", range(200, 230))
    error = refused(spark, world, stage)
    assert "recreated" in error.what
    assert error.where == f"topic {world.topic('b')}"
    with running(spark, world, stage, accept_new_source=True) as run:
        wait_until(lambda: world.ids(stage).total() > 20, what="events of the new topic")
        world.cluster.make_again(world.topic("a"), partitions=2)
        send(world, "a", range(300, 330))
        wait_until(lambda: run.error is not None, what="the end of the stage")
    assert isinstance(run.error, WouldLoseData), run.error
    assert run.error.where == f"topic {world.topic('a')}"


def test_events_that_one_of_two_topics_has_lost_are_told_with_its_name(spark, world):
    stage = read_topics(world, "a", "b")
    send(world, "a", range(10))
    send(world, "b", range(100, 110))
    run_until(spark, world, stage, 20)
    done = world.cluster.topics.end_offsets(world.topic("b"))
    send(world, "b", range(110, 130))
    delete_records(
        world.cluster.connection, world.topic("b"), {partition: offset + 2 for partition, offset in done.items()}
    )
    error = refused(spark, world, stage)
    assert "deleted 2 events" in error.what
    assert error.where == f"topic {world.topic('b')}, partition 0, offset {done[0]}"


def test_topics_of_a_pattern_are_read_also_those_that_come_while_the_stage_runs_or_rests(spark, world):
    stage = read_pattern(world, r"plays\.\w+")
    checkpoint = Path(world.document["stages"][stage]["checkpoint"])
    with pytest.raises(ConfigError, match="no topic of the pattern"):
        raise Run(spark, world, stage).end()
    send(world, "plays.a", range(10))
    for other in ("plays.a.more", "plays", "no.plays.a"):
        send(world, other, range(1_000, 1_010))
    with running(spark, world, stage) as run:
        until_ids(world, stage, range(10), run)
        send(world, "plays.b", range(10, 20))
        until_ids(world, stage, range(20), run)
        # The watch has seen it: from now on it would be told if it were made again.
        wait_until(lambda: world.topic("plays.b") in text_of(checkpoint / NAME), what="the id of the topic")
        wait_until(lambda: committed(world, stage, "plays.b") == ends(world, "plays.b"), what="the group's offsets")
        world.cluster.produce(world.topic("plays.b"), [(b"bad", b"no json")])
        wait_until(lambda: world.dead_letters(stage), what="a dead letter")
        run.stop.set()
        assert run.end() is None
    send(world, "plays.c", range(20, 25))
    world.cluster.produce(world.topic("plays.b"), [(b"bad", b"no json")])
    world.cluster.produce(world.topic("plays.c"), [(b"bad", b"no json")])
    with running(spark, world, stage) as run:
        until_ids(world, stage, range(25), run)
        wait_until(lambda: len(world.dead_letters(stage)) == 3, what="the dead letters")
        # The last batches are the first that read it.
        send(world, "plays.d", range(25, 30))
        until_ids(world, stage, range(30), run)
        run.stop.set()
        assert run.end() is None
    assert world.cluster.topics.topic_id(world.topic("plays.d")) in (checkpoint / NAME).read_text()
    assert committed(world, stage, "plays.a", "plays.b", "plays.c") == ends(world, "plays.a", "plays.b", "plays.c")
    sender = f"{world.document['name']}.{stage}"
    ids = {name: world.cluster.topics.topic_id(world.topic(name)) for name in ("plays.b", "plays.c")}
    ended = [(key_of(letter) or b"").decode().split("/", 3) for letter in world.dead_letters(stage)]
    told = sorted((topic, who) for topic, _, _, who in ended)
    assert told == [
        *[(world.topic("plays.b"), sender)] * 2,
        (world.topic("plays.c"), f"{sender}/{ids['plays.c']}"),
    ]
    world.cluster.make_again(world.topic("plays.b"), partitions=2)
    assert f"topic {world.topic('plays.b')}" == refused(spark, world, stage).where
    world.cluster.topics.delete(world.topic("plays.b"))
    wait_until(lambda: not world.cluster.topics.exists(world.topic("plays.b")), what="the topic's end")
    assert "deleted" in refused(spark, world, stage).what


@pytest.mark.parametrize("profile", ["latency", "realtime"])
def test_a_topic_of_a_pattern_that_is_deleted_under_a_running_stage_is_told(spark, world, profile):
    stage = read_pattern(world, r"plays\.\w+", profile=profile)
    send(world, "plays.a", range(10))
    send(world, "plays.b", range(10, 20))
    with running(spark, world, stage) as run:
        until_ids(world, stage, range(20), run)
        world.cluster.topics.delete(world.topic("plays.b"))
        send(world, "plays.c", range(20, 30))  # in the same moment another one comes
        wait_until(lambda: run.error is not None, what="the end of the stage")
    assert isinstance(run.error, WouldLoseData), run.error
    assert (run.error.where, "was deleted" in run.error.what) == (f"topic {world.topic('plays.b')}", True)


def test_a_topic_of_a_pattern_that_comes_without_its_oldest_events_is_told_and_read_after_the_next_start(spark, world):
    stage = read_pattern(world, r"plays\.\w+")
    # So that Spark waits before it takes the new topic.
    world.document["stages"][stage]["settings"] = {"minOffsetsPerTrigger": 1_000, "maxTriggerDelay": "8s"}
    send(world, "plays.a", range(10))
    with running(spark, world, stage) as run:
        until_ids(world, stage, range(10), run)
        send(world, "plays.b", range(100, 130))
        delete_records(world.cluster.connection, world.topic("plays.b"), dict.fromkeys([0, 1], 2))
        wait_until(lambda: run.error is not None, what="the end of the stage")
    assert isinstance(run.error, Retryable), run.error
    assert str(run.error.where).startswith(f"topic {world.topic('plays.b')}, partition ")
    with running(spark, world, stage) as run:
        until_all(world, stage, 36, run)
    assert world.ids(stage).total() == 36

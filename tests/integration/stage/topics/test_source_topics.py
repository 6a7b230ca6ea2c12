"""A source topic that was recreated, or lost events: no event is left out without a word."""

import logging
from contextlib import suppress
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError, WouldLoseData
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.source_topics import NAME
from enrich.stage.progress.starting import From
from tests.support.kafka.topics import delete_records
from tests.support.seed import variants
from tests.support.stage.frames import source_of
from tests.support.stage.runs import refused, run_until, running, until_all
from tests.support.waiting import wait_until


def send(world, stage, ids):
    world.send(stage, [{"id": number, "user_id": "ann"} for number in ids])


def test_a_start_on_a_topic_that_was_recreated_is_refused_until_somebody_chooses(spark, world, caplog):
    caplog.set_level(logging.WARNING)
    stage = world.stage("enrich", [])
    topic, checkpoint = world.topic("enrich.in"), Path(world.document["stages"][stage]["checkpoint"])
    send(world, stage, range(10))
    run_until(spark, world, stage, 10)
    # A checkpoint of a release that did not say which topic it is of.
    (checkpoint / NAME).unlink()
    (checkpoint / f".{NAME}.crc").unlink(missing_ok=True)
    send(world, stage, range(10, 15))
    run_until(spark, world, stage, 15)
    assert "does not name the topic" in caplog.text
    world.cluster.make_again(topic, partitions=2)
    # More than before: offsets alone show nothing.
    send(world, stage, range(100, 140))
    error = refused(spark, world, stage)
    assert "recreated" in error.what
    assert error.where == f"topic {topic}"
    assert "--from earliest" in str(error.next_step)
    assert "--accept-new-source" in str(error.next_step)
    assert len(world.ids(stage)) == 15
    world.lose_checkpoint(stage)
    run_until(spark, world, stage, 55, start=From.parse("earliest"))
    assert set(world.ids(stage)) == {*range(15), *range(100, 140)}
    # Moved with all of its events to another cluster: here, as many of them.
    world.cluster.make_again(topic, partitions=2)
    send(world, stage, range(100, 150))
    run_until(spark, world, stage, 65, accept_new_source=True)
    assert set(world.ids(stage)) == {*range(15), *range(100, 150)}
    assert world.cluster.topics.topic_id(topic) in (checkpoint / NAME).read_text()


def test_a_topic_that_is_recreated_beneath_a_running_stage_ends_it(spark, world):
    stage = world.stage("enrich", [])
    send(world, stage, range(10))
    with running(spark, world, stage) as run:
        until_all(world, stage, 10, run)
        world.cluster.make_again(world.topic("enrich.in"), partitions=2)
        send(world, stage, range(100, 130))
        wait_until(lambda: run.error is not None, what="the end of the stage")
    assert isinstance(run.error, WouldLoseData), run.error
    assert "recreated" in run.error.what
    assert "recreated" in refused(spark, world, stage).what


@pytest.mark.parametrize("topic", variants("out", "dlq"))
def test_a_topic_of_its_own_that_is_deleted_beneath_a_running_stage_ends_it(spark, world, topic):
    """Also if nothing goes there just now. Slots would try again for good."""
    stage = world.stage("enrich", [], profile="realtime")
    send(world, stage, range(10))
    with running(spark, world, stage) as run:
        until_all(world, stage, 10, run)
        world.cluster.topics.delete(world.topic(f"enrich.{topic}"))
        wait_until(lambda: run.error is not None, what="the end of the stage")
    assert isinstance(run.error, ConfigError), run.error
    assert run.error.where == f"topic {world.topic(f'enrich.{topic}')}"


def test_events_that_the_brokers_deleted_before_they_were_read_end_the_stage_and_are_counted(spark, world):
    stage = world.stage("enrich", [])
    topic = world.topic("enrich.in")
    send(world, stage, range(10))
    run_until(spark, world, stage, 10)
    done = world.cluster.topics.end_offsets(topic)
    send(world, stage, range(10, 30))
    delete_records(world.cluster.connection, topic, {partition: offset + 2 for partition, offset in done.items()})
    error = refused(spark, world, stage)
    assert "deleted 2 events" in error.what
    assert f"topic {topic}, partition 0, offset {done[0]}" == error.where
    world.lose_checkpoint(stage)
    assert "deleted 2 events" in refused(spark, world, stage, start=From.parse("group")).what
    run_until(spark, world, stage, 26, start=From.parse("earliest"))


def test_events_that_the_brokers_delete_beneath_a_running_stage_end_it_and_are_counted(spark, world):
    """As where it is so late that they are deleted by age: it waits for more, and they are not there any more."""
    stage = world.stage("enrich", [], settings={"minOffsetsPerTrigger": 1000, "maxTriggerDelay": "4s"})
    topic = world.topic("enrich.in")
    send(world, stage, range(10))
    with running(spark, world, stage) as run:
        until_all(world, stage, 10, run)

        def ends_of_loss() -> bool:
            """Unless its delay is over just before they are deleted, and it reads them: then of the next ones."""
            done = world.cluster.topics.end_offsets(topic)
            send(world, stage, range(10, 30))
            below = {partition: offset + 2 for partition, offset in done.items()}
            delete_records(world.cluster.connection, topic, below)
            with suppress(AssertionError):
                wait_until(lambda: run.error is not None, deadline_s=60)
            return run.error is not None

        wait_until(ends_of_loss, what="the end of the stage")
    assert isinstance(run.error, WouldLoseData), run.error
    assert "deleted 2 events" in run.error.what
    assert run.error.what == refused(spark, world, stage).what


def test_a_checkpoint_beyond_the_topics_end_is_refused_though_it_does_not_say_which_topic_it_is_of(spark, world):
    stage = world.stage("enrich", [])
    send(world, stage, range(10))
    run_until(spark, world, stage, 10)
    (Path(world.document["stages"][stage]["checkpoint"]) / NAME).unlink()
    world.cluster.make_again(world.topic("enrich.in"), partitions=2)
    error = refused(spark, world, stage)
    assert "beyond the topic's end" in error.what


def test_letters_of_two_stages_and_of_two_topics_of_one_name_have_keys_of_their_own(spark, world):
    for stage in ("one", "two"):
        world.stage(stage, [], topics="all")

    def keys(stage, source_id):
        plan = StagePlan(spark, world.pipeline, stage, source_ids={"events": source_id, "others": "no-id"})
        return [bytes(row.key).decode() for row in plan.records(source_of(spark, [b"no json"])).collect()]

    name = world.document["name"]
    assert keys("one", "an-id") == [f"events/0/0/{name}.one/an-id"]
    assert keys("two", "an-id") == [f"events/0/0/{name}.two/an-id"]
    assert keys("one", "another-id") == [f"events/0/0/{name}.one/another-id"]

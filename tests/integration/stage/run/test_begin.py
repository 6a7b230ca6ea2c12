"""Where a stage begins that ended before its first batch, and what Spark refuses as it begins."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from enrich.base.errors import ConfigError, WouldLoseData
from enrich.stage.progress.owner import NAME as OWNER
from enrich.stage.progress.source_topics import BEGINNING
from enrich.stage.progress.starting import From
from enrich.stage.spark.refusals import begun_by_spark
from tests.support.stage.runs import Run, running, until_all
from tests.support.waiting import wait_until


@pytest.fixture
def begun(spark, world):
    """A stage that was killed before its first batch, and would have begun behind ten events: it has what another one
    has recorded until then."""
    stage, other = world.stage("enrich", []), world.stage("other", [], topics="enrich")
    world.send(stage, [{"id": number} for number in range(10)])
    killed, whole = (Path(world.document["stages"][name]["checkpoint"]) for name in (stage, other))
    with running(spark, world, other, From.parse("latest")) as run:
        wait_until((whole / BEGINNING).exists, what="Spark's record of where it begins")
        run.stop.set()
        assert run.end() is None
    shutil.copytree(whole, killed, ignore=shutil.ignore_patterns("offsets", "commits", f"*{OWNER}*"))
    return stage


def run_until(spark, world, stage, events, start=None):
    with running(spark, world, stage, start) as run:
        until_all(world, stage, events, run)
        run.stop.set()
        assert run.end() is None


def test_a_start_that_says_where_to_begin_begins_there(spark, world, begun):
    run_until(spark, world, begun, 10, From.parse("earliest"))
    assert world.ids(begun) == Counter(range(10))


def test_one_that_does_not_begins_where_the_one_before_would_have(spark, world, begun):
    world.send(begun, [{"id": number} for number in range(10, 15)])
    run_until(spark, world, begun, 5)
    assert world.ids(begun) == Counter(range(10, 15))


def test_the_place_where_it_would_begin_is_one_of_this_topic(spark, world, begun):
    world.cluster.make_again(world.topic("enrich.in"), partitions=2)
    world.send(begun, [{"id": number} for number in range(20)])
    error = Run(spark, world, begun).end()
    assert isinstance(error, WouldLoseData), error
    assert "recreated" in error.what


def test_a_checkpoint_is_of_one_stage_of_one_pipeline(spark, world):
    """As where the file of a pipeline is copied, and only its name and its outputs are changed."""
    stage, own = world.stage("enrich", []), world.document["name"]
    world.send(stage, [{"id": number} for number in range(10)])
    run_until(spark, world, stage, 10)
    world.document["name"] = f"{own}-too"
    error = Run(spark, world, stage).end()
    assert isinstance(error, WouldLoseData), error
    assert f"of the stage {stage} of the pipeline {own}: " in error.what
    assert f"--from group:enrich.{own}.{stage}" in str(error.next_step)
    world.document["name"] = own
    world.send(stage, [{"id": 10}])
    run_until(spark, world, stage, 11)
    assert world.ids(stage) == Counter(range(11))


def test_a_start_with_an_older_checkpoint_says_that_events_are_processed_once_more(spark, world, caplog):
    """As after a roll-back of the configuration."""
    stage = world.stage("enrich", [])
    section = world.document["stages"][stage]
    older, newer = section["checkpoint"], section["checkpoint"] + "-again"

    def told():
        return [vars(record) for record in caplog.records if "behind the consumer group" in record.getMessage()]

    for number, (checkpoint, start) in enumerate([(older, None), (older, None), (newer, From.parse("group"))]):
        section["checkpoint"] = checkpoint
        world.send(stage, [{"id": number}])
        run_until(spark, world, stage, number + 1, start)
    assert not told()
    section["checkpoint"] = older
    world.send(stage, [{"id": 3}])
    run_until(spark, world, stage, 4)
    assert world.ids(stage) == Counter([0, 1, 2, 2, 3])
    (one,) = told()
    assert one["offsets"] == 1 and "another checkpoint" in one["next"]


def test_what_spark_refuses_is_named_in_a_line(spark):
    options = {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "in",
        "minOffsetsPerTrigger": "2",
        "maxOffsetsPerTrigger": "1",
    }
    with pytest.raises(ConfigError) as raised, begun_by_spark("enrich"):
        spark.readStream.format("kafka").options(**options).load().writeStream.format("noop").start()
    assert raised.value.where == "stages.enrich.settings"
    assert "OffsetPerTrigger" in raised.value.what
    assert "\n" not in raised.value.what

"""A stage's starts and ends: nothing is repeated after a drain or left out after a loss; one driver runs at a time."""

import threading
import time
from collections import Counter
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

from enrich.base.errors import BadRecord, ConfigError, Fenced, Unreachable, WouldLoseData
from enrich.config.groups import stage_group
from enrich.stage.progress import drivers
from enrich.stage.progress.checkpoint import Checkpoint, choose_file_manager
from enrich.stage.progress.starting import From
from enrich.stage.run import draining, stage_run
from enrich.stage.run.batches import BatchFlow
from enrich.stage.run.draining import drain
from tests.support.seed import rounds, variants
from tests.support.stage.runs import LOOKUP, Run, running, until_all
from tests.support.stage.world import Load
from tests.support.waiting import wait_until

REPLAYS = ["latest", "deterministic"]


@pytest.mark.parametrize(
    ("profile", "replay"), variants(("latency", "latest"), ("throughput", "latest"), ("latency", REPLAYS[1]))
)
def test_a_drain_under_load_repeats_nothing_and_leaves_nothing_out(spark, world, profile, replay):
    world.users(history="1h")
    stage = world.stage("enrich", [LOOKUP], profile=profile, replay=replay)
    with Load(world, stage) as load:
        for _ in range(rounds(1, 10)):
            done = world.records(stage)
            with running(spark, world, stage) as run:
                until_all(world, stage, done + 1_000, run)
                run.stop.set()
                assert run.end() is None
    with running(spark, world, stage) as run:
        until_all(world, stage, load.sent, run)
    assert world.ids(stage) == Counter(range(load.sent))
    committed = world.committed(stage)
    assert committed == world.cluster.topics.end_offsets(world.topic("enrich.in"))


def test_a_lost_checkpoint_is_refused_until_somebody_says_where_to_go_on(spark, world):
    world.users()
    stage = world.stage("enrich", [LOOKUP])
    world.send(stage, [{"id": number} for number in range(10)])
    with running(spark, world, stage) as run:
        until_all(world, stage, 10)
        run.stop.set()
        assert run.end() is None
    with pytest.raises(ConfigError, match="without a checkpoint"):
        raise Run(spark, world, stage, From.parse("earliest")).end()
    world.lose_checkpoint(stage)
    world.send(stage, [{"id": number} for number in range(10, 15)])
    with pytest.raises(WouldLoseData, match="--from group"):
        raise Run(spark, world, stage).end()
    with running(spark, world, stage, From.parse("group")) as run:
        until_all(world, stage, 15)
    assert world.ids(stage) == Counter(range(15))


@pytest.mark.parametrize("replay", variants(*REPLAYS))
def test_the_newer_of_two_drivers_shuts_the_older_one_out(spark, world, replay):
    world.users(history="1h")
    stage = world.stage("enrich", [LOOKUP], replay=replay)
    world.send(stage, [{"id": 0}])
    with running(spark, world, stage) as older:
        until_all(world, stage, 1)
        wait_until(lambda: world.committed(stage), what="the group's offsets")
        taking_over = world.progress(stage)
        taking_over.take_over()
        taking_over.close()
        assert isinstance(older.end(), Fenced)


def test_of_two_drivers_that_begin_at_once_one_goes_on_alone(spark, world, monkeypatch):
    begun, others = BatchFlow.begin, []
    waited, together = drivers.wait_for_others, threading.Barrier(2)

    def begin(*arguments):
        others.append(len(spark.streams.active))
        return begun(*arguments)

    def wait(*arguments):
        waited(*arguments)  # there is nobody
        together.wait(60)

    monkeypatch.setattr(BatchFlow, "begin", begin)
    monkeypatch.setattr(stage_run, "wait_for_others", wait)
    stage = world.stage("enrich", [])
    world.send(stage, [{"id": number} for number in range(10)])
    with running(spark, world, stage) as one, running(spark, world, stage) as other:
        wait_until(lambda: one.error or other.error, what="the end of one")
        fenced, still = (one, other) if one.error else (other, one)
        assert isinstance(fenced.end(), Fenced)
        until_all(world, stage, 10, still)
        still.stop.set()
        assert still.end() is None
    assert others == [0]
    assert world.ids(stage) == Counter(range(10))


@pytest.mark.parametrize("replay", variants(*REPLAYS))
def test_the_newer_of_two_drivers_begins_when_the_older_one_has_gone_and_goes_on(spark, world, replay, monkeypatch):
    begun, others = BatchFlow.begin, []

    def begin(*arguments):
        # In one session Spark ends the older one itself. In two, both may end.
        others.append(len(spark.streams.active))
        return begun(*arguments)

    monkeypatch.setattr(BatchFlow, "begin", begin)
    world.users(history="1h")
    stage = world.stage("enrich", [LOOKUP], replay=replay)
    with Load(world, stage) as load, running(spark, world, stage) as older:
        until_all(world, stage, 200, older)
        with running(spark, world, stage) as newer:
            assert isinstance(older.end(), Fenced)
            until_all(world, stage, load.sent + 400, newer)
            newer.stop.set()
            assert newer.end() is None
    assert others == [0, 0]
    assert not (Path(world.document["stages"][stage]["checkpoint"]) / "enrich-driver").exists()


@pytest.mark.parametrize("by", ["signal", "marker"])
def test_a_stage_that_is_told_to_stop_before_it_began_shuts_nobody_out(spark, world, by):
    world.document["tables"]["absent"] = {
        "topic": "there.is.no.such.topic",
        "format": "string",
        "columns": "value string",
        "freshness": {"deadline": "60s"},
    }
    stage = world.stage("enrich", [{"table": "absent", "key": "user_id", "as": "absent"}])
    checkpoint = Checkpoint(spark, world.pipeline.stages[stage].checkpoint)
    checkpoint.request_stop()  # left over, of somebody who gave up
    with closing(world.progress(stage)) as of_older:
        of_older.take_over()
        with running(spark, world, stage) as newer:
            wait_until(lambda: world.agent_pid() is not None, what="the preload")
            assert newer.error is None
            if by == "signal":
                newer.stop.set()
            else:
                checkpoint.request_stop()
            assert newer.end() is None
        assert not checkpoint.is_stop_requested()
        of_older.reached({world.topic("enrich.in"): {0: 0}})
        of_older.commit()


def test_a_drain_whose_last_batch_fails_ends_as_that_batch_did(spark, world):
    world.users(freshness={"bound": "5s", "deadline": "15s"}, history="1h")
    lookup = {**LOOKUP, "as_of": True, "on_miss": "wait", "then": "fail"}
    stage = world.stage("enrich", [lookup], event_time="ts")
    with running(spark, world, stage) as run:
        wait_until(lambda: spark.streams.active or run.error, what="the query")
        query = spark.streams.active[0]
        # Its first batch is empty, and has jobs, too.
        wait_until(lambda: query.recentProgress or run.error, what="the end of the first batch")
        # The batch waits until the table is complete beyond this time, and then has no row.
        soon = datetime.now(UTC) + timedelta(seconds=10)
        world.send(stage, [{"id": 1, "user_id": "nobody", "ts": soon.isoformat()}])
        tasks = spark.sparkContext.statusTracker()
        wait_until(
            lambda: (query.status["message"] == "Processing new data" and tasks.getActiveJobsIds()) or run.error,
            what="the batch under way",
        )
        run.stop.set()
        assert isinstance(run.end(), BadRecord), query.exception()


@contextmanager
def held(lock):
    """As the stream thread does, for minutes, while it asks brokers that are away."""
    taken, done = threading.Event(), threading.Event()

    def hold():
        lock.lock()
        taken.set()
        done.wait(60)
        lock.unlock()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(60)
    yield
    done.set()
    thread.join()


@pytest.mark.parametrize("waits_for", ["its batch", "its turn"])
def test_a_drain_ends_in_time_and_says_when_it_did_not_finish(spark, tmp_path, waits_for, monkeypatch):
    monkeypatch.setattr(draining, "_STOP_S", 1.0)
    began, goes_on = threading.Event(), threading.Event()

    def write(batch, number):
        began.set()
        if waits_for == "its batch":
            goes_on.wait(60)

    writing = spark.readStream.format("rate").load().writeStream.foreachBatch(write)
    query = writing.option("checkpointLocation", str(tmp_path)).start()
    try:
        assert began.wait(60)
        lock = query._jsq.streamingQuery().awaitProgressLock()
        with held(lock) if waits_for == "its turn" else nullcontext():
            at = time.monotonic()
            with pytest.raises(Unreachable, match="did not end within 1 s"):
                drain(query, 1)
            assert time.monotonic() - at < 20
    finally:
        goes_on.set()
        query.stop()


@pytest.mark.parametrize("replay", variants(*REPLAYS))
def test_a_marker_in_the_checkpoint_drains_the_stage_which_tells_what_it_dropped(spark, world, caplog, replay):
    caplog.set_level("INFO")
    world.users(history="1h")
    stage = world.stage("enrich", [{**LOOKUP, "on_miss": "drop"}], replay=replay)
    world.send(stage, [{"id": 1}, {"id": 2, "user_id": "nobody"}, b"garbage", {"id": 0, "user_id": "ann"}])
    with running(spark, world, stage) as run:
        wait_until(lambda: world.records(stage) == 2, what="the event and the dead letter")
        checkpoint = Checkpoint(spark, world.pipeline.stages[stage].checkpoint)
        checkpoint.request_stop()
        assert run.end() is None
        assert not checkpoint.is_stop_requested()
    (told,) = [vars(record) for record in caplog.records if record.getMessage() == "the stage has drained"]
    assert (told["events"], told["dropped"], told["dead_letters"]) == (4, 2, 1)


class LateTeller(StreamingQueryListener):
    """Holds up what Spark tells all listeners after it, until the query has ended."""

    def __init__(self, streams):
        self._streams = streams

    def onQueryStarted(self, event):  # noqa: N802 - Spark's names
        del event

    def onQueryProgress(self, event):  # noqa: N802
        del event
        wait_until(lambda: not self._streams.active, what="the end of the query")

    def onQueryTerminated(self, event):  # noqa: N802
        del event


def test_the_totals_are_whole_however_late_spark_tells_of_its_batches(spark, world, caplog):
    caplog.set_level("INFO")
    world.users()
    stage = world.stage("enrich", [LOOKUP])
    world.send(stage, [{"id": number} for number in range(3)])
    late = LateTeller(spark.streams)
    spark.streams.addListener(late)
    try:
        with running(spark, world, stage) as run:
            until_all(world, stage, 3, run)
            run.stop.set()
            assert run.end() is None
    finally:
        spark.streams.removeListener(late)
    (told,) = [vars(record) for record in caplog.records if record.getMessage() == "the stage has drained"]
    assert told["events"] == 3


def test_a_table_that_does_not_become_ready_ends_the_stage_naming_it(spark, world):
    world.users()
    world.document["tables"]["absent"] = {
        "topic": "there.is.no.such.topic",
        "format": "string",
        "columns": "value string",
        "freshness": {"deadline": "2s"},
    }
    stage = world.stage("enrich", [{"table": "absent", "key": "user_id", "as": "absent"}])
    error = Run(spark, world, stage).end()
    assert isinstance(error, Unreachable)
    assert "table absent" in error.what
    assert "never complete" in error.what
    assert str(error.where).startswith("host ")


def test_topics_that_are_missing_are_told_before_anything_starts(spark, world):
    world.users()
    stage = world.stage("enrich", [LOOKUP])
    world.document["stages"][stage]["sink"]["topic"] = "no.sink"
    error = Run(spark, world, stage).end()
    assert isinstance(error, ConfigError)
    assert "no.sink" in str(error)


MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.fixture
def default_files(spark):
    """Sets where paths without a scheme are."""
    hadoop, chosen = spark.sparkContext._jsc.hadoopConfiguration(), spark.conf.get(MANAGER, None)
    before = hadoop.get("fs.defaultFS")
    yield lambda uri: (hadoop.set("fs.defaultFS", uri), spark.conf.unset(MANAGER))
    hadoop.set("fs.defaultFS", before)
    spark.conf.unset(MANAGER)
    if chosen is not None:
        spark.conf.set(MANAGER, chosen)


def test_the_quick_manager_of_checkpoints_is_taken_where_renames_are_atomic(spark, default_files):
    everywhere = [("file:///c", True), ("hdfs://n/c", True), ("s3a://b/c", False)]
    for default, paths in {
        "file:///": [*everywhere, ("/c", True)],
        "s3a://bucket": [*everywhere, ("/c", False)],
        "hdfs://name": [*everywhere, ("/c", True)],
    }.items():
        for path, is_quick in paths:
            default_files(default)
            choose_file_manager(spark, path)
            assert (spark.conf.get(MANAGER, None) is not None) == is_quick, (default, path)
    default_files("file:///")
    spark.conf.set(MANAGER, "a.manager.of.the.user")
    choose_file_manager(spark, "/c")
    assert spark.conf.get(MANAGER) == "a.manager.of.the.user"


@pytest.mark.parametrize("is_quick", [False, True])
def test_texts_in_a_checkpoint_are_replaced_or_left_as_is_asked_for(spark, default_files, tmp_path, is_quick):
    """Whatever way Spark writes its own: the quick one neither replaces a file nor says so."""
    if is_quick:
        choose_file_manager(spark, f"file://{tmp_path}")
    checkpoint = Checkpoint(spark, f"file://{tmp_path}")
    for text in ("first", "second"):
        checkpoint.write("text", text)
        assert checkpoint.read("text") == text
    assert [checkpoint.create("once", text) for text in ("first", "second")] == [True, False]
    assert checkpoint.read("once") == "first"
    assert checkpoint.read("never") is None


def test_group_names_are_the_pipelines_and_the_stages():
    assert stage_group("plays", "enrich") == "enrich.plays.enrich"

"""The release of the pipeline on what a stage writes, and what it is for: a replay after a roll-back makes records with
equal versions, and the store must end with those of the good code."""

import json

import pytest
from pyspark.sql import functions as sql

from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.starting import From
from tests.integration.stage.events.test_writeback import read_so_far, run_until, send, synced
from tests.support.seed import variants
from tests.support.stage.frames import VERSIONS, source_of, written_back
from tests.support.stage.world import StageWorld
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def framed(cluster, tmp_path_factory):
    """A world whose stages run over frames, not over Kafka."""
    made = StageWorld(cluster, tmp_path_factory.mktemp("release"))
    yield made
    made.close()


def releases_of(rows):
    """Of each record, by its event's number: the header `enrich.release`, as often as it is there."""
    return {
        int(bytes(row.key).decode().lstrip("k")): [
            bytes(header.value).decode() for header in row.headers or [] if header.key == "enrich.release"
        ]
        for row in rows
    }


def of_brought(spark, world, stage, brought):
    """The releases of outputs and of what is written back, for events that bring these."""
    events = [json.dumps({"ip": "x"}).encode() for _ in brought]
    texts = sql.array(*(sql.lit(each) for each in brought))
    header = sql.struct(sql.lit("enrich.release").alias("key"), texts[sql.col("offset").cast("int")].cast("binary"))
    with_it = sql.array(header).cast("array<struct<key:string,value:binary>>")
    source = source_of(spark, events)
    source = source.withColumn("headers", sql.when(texts[sql.col("offset").cast("int")] != "", with_it))
    made = StagePlan(spark, world.pipeline, stage, source=VERSIONS).records(source).collect()
    back, others = written_back(made, world.topic("all.back"))
    return releases_of(others), releases_of(back)


@pytest.mark.parametrize("is_routed", [False, True])
def test_outputs_and_what_is_written_back_carry_the_release_if_there_is_one(spark, framed, is_routed):
    section = {"writeback": {"topic": framed.topic("all.back"), "value": "ip"}}
    stage = framed.stage(f"carries-{is_routed}", [], topics="all", **({} if is_routed else section))
    if is_routed:
        topic = framed.document["stages"][stage].pop("sink")["topic"]
        framed.document["stages"][stage]["routes"] = [{"name": "only", "topic": topic, "headers": {"ip": "ip"}}]
    framed.document["release"] = 0
    brought = ["", "5", "7", "9", "x"]
    out, back = of_brought(spark, framed, stage, brought)
    assert out == {0: [], 1: ["5"], 2: ["7"], 3: ["9"], 4: ["x"]}  # as the events brought them
    assert back == ({} if is_routed else {number: [] for number in range(5)})
    framed.document["release"] = 7
    out, back = of_brought(spark, framed, stage, brought)
    assert out == {0: ["7"], 1: ["5", "7"], 2: ["7"], 3: ["9"], 4: ["x", "7"]}
    assert back == ({} if is_routed else {0: ["7"], 1: ["7"], 2: ["7"], 3: ["9"], 4: ["7"]})


@pytest.mark.parametrize("releases", [*variants((0, 0), (7, 7)), *variants((7, 8), (0, 1))])
def test_a_replay_after_a_roll_back_ends_with_the_good_rows_if_its_release_is_higher(spark, world, stack, releases):
    back, (of_bad, of_good) = world.topic("back", cleanup_policy="compact"), releases
    stage = world.stage("enrich", [])
    send(world, stage, *((f"k{number % 5}", {"ip": str(number)}) for number in range(50)), ("k0", {"ip": "gone"}))

    def deploy(value, release):
        world.document["release"] = release
        world.document["stages"][stage]["writeback"] = {
            "topic": back,
            "value": f"CASE WHEN ip != 'gone' THEN struct({value} AS ip) END",
        }

    deploy("concat(ip, ' bad')", of_bad)
    with synced(world, stack, back, "ip string") as (service, found):
        run_until(spark, world, stage, back, 51)
        wait_until(lambda: read_so_far(service) == 51, what="all records in Redis")
        before = found.rows()
        assert {row.get("ip") for row in before.values()} == {None, *(f"{number} bad" for number in range(46, 50))}
        world.lose_checkpoints()
        deploy("ip", of_good)
        run_until(spark, world, stage, back, 102, From.parse("earliest"))
        wait_until(lambda: read_so_far(service) == 102, what="the replay in Redis")
        after = found.rows()
    if of_good == of_bad:
        assert after == before  # the control: of equal versions the first stays
        return
    assert {key: row["_version"] for key, row in after.items()} == {key: row["_version"] for key, row in before.items()}
    assert {row["_release"] for row in after.values()} == {str(of_good)}
    assert {row.get("ip") for row in after.values()} == {None, *map(str, range(46, 50))}
    assert after["k0"]["_deleted"] == "1"


def test_a_stage_whose_release_has_fallen_warns_and_runs(spark, world, caplog):
    back = world.topic("back", cleanup_policy="compact")
    stage = world.stage("enrich", [], writeback={"topic": back, "value": "ip"})
    for number, release in enumerate((8, 7), 1):
        world.document["release"] = release
        send(world, stage, ("k", {"ip": str(release)}))
        run_until(spark, world, stage, back, number)
    warned = [each for each in caplog.messages if "has records of release 8, and this is release 7" in each]
    assert len(warned) == 2  # its output, and what it writes back

"""Spark's start: by `spark-submit`, as docs/stages.md has it, and what a person sees when it fails. Cluster mode:
tests/chaos/stage/test_yarn.py."""

import subprocess

import pytest

from enrich.stage.spark.session import connector_jars
from tests.support.commands import enrich_process
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.spark.standalone import PYTHON, STAGE_JOB, SUBMIT, environment
from tests.support.stage.world import running_stage
from tests.support.waiting import GUARD_S


def submitted(world, stage, log, *words):
    own = ("--master", "local[2]", "--driver-java-options", quick_jvm())
    command = [SUBMIT, *own, *words, STAGE_JOB, stage, "-c", world.file]
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=world.folder, env=environment(**PYTHON), stdout=out, stderr=out)


def test_it_runs_with_the_connector_and_says_how_to_have_it_without(world, tmp_path):
    world.users()
    stage = world.stage("enrich", [{"table": "users", "key": "user_id", "as": "user"}])
    log = tmp_path / "submit.log"
    assert submitted(world, stage, log).wait(GUARD_S) == 2
    assert "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0" in log.read_text()
    world.send(stage, [{"id": number, "user_id": "ann"} for number in range(10)])
    running = submitted(world, stage, log, "--jars", ",".join(map(str, connector_jars())))
    try:
        assert {event["user"]["plan"] for event in world.until(stage, 10)} == {"free"}
        # In a process of its own: here it would join the session of all these tests, and end it.
        with enrich_process("stop", stage, "-c", world.file) as stopping:
            _, told = stopping.communicate(timeout=GUARD_S)
            assert stopping.returncode == 0, told
        assert running.wait(GUARD_S) == 0, log.read_text()
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        # Java ends before it answers: HADOOP_CONF_DIR is missing.
        ("yarn", "Spark could not start: Java ended at once"),
        ("local[x]", "Spark could not start: Could not parse Master URL: 'local[x]'"),
    ],
)
def test_a_wrong_master_is_said_in_a_line(world, master, reason):
    stage = world.stage("enrich", [])
    with running_stage(world, stage, master=master, environment=environment()) as running:
        assert running.end() == 2
        told = running.told()
    assert f"error: {reason}\nwhere: --master, --conf\n" in told
    assert "Traceback" not in told

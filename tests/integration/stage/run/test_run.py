"""`enrich run`: the whole way of an event through the real program, its end, and its next start."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from enrich.stage.daemon import BUILD
from enrich.stage.progress.checkpoint import STOP_MARKER
from tests.support.processes import python_daemons
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.stage.runs import LOOKUP
from tests.support.stage.world import running_stage
from tests.support.waiting import wait_until


def stop_command(stage: str, file: Path) -> list[str]:
    quick = ["--conf", f"spark.driver.extraJavaOptions={quick_jvm()}"]
    return [sys.executable, "-m", "enrich", "stop", stage, "-c", str(file), *quick]


def test_a_stage_enriches_follows_its_table_drains_on_sigterm_and_goes_on_where_it_was(world):
    world.users()
    stage = world.stage("enrich", [LOOKUP])
    events = [{"id": 1, "user_id": "ann", "more": [1.50, "é"]}, {"id": 2, "user_id": "nobody"}, {"id": 3}, b"{no json"]
    world.send(stage, events)
    with running_stage(world, stage) as running:
        output = {event["id"]: event for event in world.until(stage, 4)}
        assert output == {
            1: {"id": 1, "user_id": "ann", "more": [1.5, "é"], "user": {"plan": "free", "region": "eu"}},
            2: {"id": 2, "user_id": "nobody", "user": None},
            3: {"id": 3, "user": None},
        }
        # Which was begun before there was a query: a query with another environment would have begun its own.
        assert len(python_daemons(running.pid)) == 1
        (letter,) = world.dead_letters(stage)
        assert letter.value() == b"{no json"
        source = world.topic("enrich.in")
        sender = f"{world.document['name']}.{stage}/{world.cluster.topics.topic_id(source)}"
        assert letter.key().decode().partition("/")[0] == source
        assert letter.key().decode().split("/", 3)[3] == sender  # no other stage, and no other topic of the name
        assert dict(letter.headers())["enrich.reason"] == b"the event is not a JSON object"
        world.put("users", {"ann": {"plan": "pro", "region": "eu"}})
        number = 10

        def plan_of_next_event():
            nonlocal number
            number += 1
            world.send(stage, [{"id": number, "user_id": "ann"}])
            seen = {event["id"]: event for event in world.until(stage, number - 6)}
            return seen[number]["user"]["plan"]

        while plan_of_next_event() != "pro":
            assert number < 200, "the change of the table is not seen"
        running.tell()
        assert running.end() == 0, running.told()
    before = world.output(stage)
    world.send(stage, [{"id": 1000, "user_id": "bob"}])
    with running_stage(world, stage) as running:
        world.until(stage, len(before) + 2)
        stopped = subprocess.run(
            stop_command(stage, world.file),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (stopped.returncode, stopped.stdout) == (0, "the stage enrich has drained\n"), stopped.stderr
        assert running.end() == 0, running.told()
    after = sorted(event["id"] for event in world.output(stage))
    assert after == sorted([*(event["id"] for event in before), 1000])


def test_a_table_that_is_not_loaded_by_its_deadline_ends_the_program_with_3(world):
    world.table("users", "plan string", {"ann": {"plan": "free"}}, freshness={"deadline": "1s"})
    world.document["tables"]["users"]["topic"] = "there.is.no.such.topic"
    stage = world.stage("enrich", [LOOKUP])
    with running_stage(world, stage) as running:
        assert running.end(120) == 3, running.told()
    told = running.told()
    assert "the table users is not ready within 1 s" in told
    assert "never complete" in told
    assert "host " in told
    assert "Traceback" not in told


def test_workers_of_another_build_than_the_driver_end_the_program_with_2_and_say_so(world):
    world.stage("enrich", [])
    world.send("enrich", [{"id": 1}])
    with running_stage(world, "enrich", "--conf", f"spark.executorEnv.{BUILD}=another") as running:
        assert running.end() == 2
        assert "than the stage's driver (build another)" in running.told()


def test_an_unknown_stage_and_a_bad_expression_end_with_2_and_say_where(world):
    world.users()
    world.stage("enrich", [{**LOOKUP, "key": "lower(users_id)"}])
    with running_stage(world, "nothing") as running:
        assert running.end() == 2
        assert "choose from enrich" in running.told()
    with running_stage(world, "enrich") as running:
        assert running.end() == 2
        assert "stages.enrich.lookups[0].key" in running.told()
    with running_stage(world, "enrich", "--new-pin") as running:
        assert running.end() == 2
        assert "--new-pin is for stages with replay: deterministic" in running.told()


@pytest.mark.parametrize("by", ["settings", "--conf"])
def test_a_checkpoint_that_only_a_setting_leads_to_is_found_by_who_stops_the_stage(tmp_path, by):
    name, value = "spark.hadoop.fs.viewfs.mounttable.held.link./checkpoints", tmp_path.as_uri()
    stage = {
        "source": {"topic": "in", "format": "json", "schema": "user_id string"},
        "sink": {"topic": "out"},
        "checkpoint": "viewfs://held/checkpoints/enrich",
        **({"settings": {name: value}} if by == "settings" else {}),
    }
    file = tmp_path / "pipeline.yaml"
    kafka = {"bootstrap_servers": "127.0.0.1:1"}
    file.write_text(json.dumps({"name": "test", "kafka": kafka, "stages": {"enrich": stage}}))
    command = stop_command("enrich", file) + (["--conf", f"{name}={value}"] if by == "--conf" else [])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as stopping:
        marker = tmp_path / "enrich" / STOP_MARKER
        wait_until(lambda: marker.exists() or stopping.poll() is not None, what="the marker")
        marker.unlink(missing_ok=True)  # as a stage that has drained
        told, _ = stopping.communicate()
    assert stopping.returncode == 0 and "the stage enrich has drained" in told, told


def test_who_stops_a_stage_that_never_began_is_told_at_once_where_it_is_looked_for(tmp_path):
    source = {"topic": "in", "format": "json", "schema": "user_id string"}
    stage = {"source": source, "sink": {"topic": "out"}, "checkpoint": "./checkpoints/enrich"}
    kafka = {"bootstrap_servers": "127.0.0.1:1"}
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps({"name": "test", "kafka": kafka, "stages": {"enrich": stage}}))
    command = [*stop_command("enrich", file), "--deadline", "0.1"]
    stopped = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert stopped.returncode == 3, stopped.stderr
    assert f"no driver of the stage enrich has begun in file:{tmp_path}/checkpoints/enrich so far" in stopped.stderr

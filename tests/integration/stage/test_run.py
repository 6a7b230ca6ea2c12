"""`enrich run`: the whole way of an event through the real program, its end, and its next start."""

import subprocess
import sys

from tests.support.stages import running_stage

LOOKUP = {"table": "users", "key": "user_id", "as": "user"}


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
        (letter,) = world.dead_letters(stage)
        assert letter.value() == b"{no json"
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
            [sys.executable, "-m", "enrich", "stop", stage, "-c", str(world.file)],
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

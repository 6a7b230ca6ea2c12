"""kill -9 of whatever a realtime stage consists of, under load: no event is missing, and none is there twice."""

import shutil
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from tests.chaos.stage.test_cluster import settings
from tests.chaos.stage.test_kill import assert_told, more
from tests.support.processes import kill, python_workers
from tests.support.seed import random_source, rounds, variants
from tests.support.spark.standalone import PYTHON, environment, executors
from tests.support.stage.world import Load, run_to_the_end, running_stage
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}


@pytest.mark.parametrize("master", variants("local[2,4]", "local[2]"))
def test_each_event_is_written_once_whatever_is_killed(world, master):
    world.users()
    world.document["tallies"] = True
    stage = world.stage("enrich", [LOOKUP], profile="realtime")
    source = random_source(f"realtime kills, {master}")
    with Load(world, stage) as load:
        for number in range(rounds(1, 20)):
            with running_stage(world, stage, master=master) as running:
                victims = {
                    "agent": world.agent_pid,
                    "worker": lambda: next(iter(python_workers(running.pid)), None),
                }
                more(world, stage, 500, running)
                for victim in source.sample(["agent", "worker", "worker"], 3):
                    kill(wait_until(victims[victim], what=f"the {victim}"))
                    world.put("users", {"ann": {"plan": f"{number}, after the {victim}", "region": None}})
                    more(world, stage, 500, running)
                kill(running.pid)
    run_to_the_end(world, stage, load, master=master)
    copies = world.copies(stage)
    assert set(copies) == set(range(load.sent))
    assert max(each.total() for each in copies.values()) == 1
    assert_told(world, stage)


def test_an_executor_that_is_killed_is_replaced_and_no_event_is_written_twice(world):
    """On a cluster that Spark makes itself. The driver goes on with the slots that there are."""
    world.users()
    stage = world.stage("enrich", [LOOKUP], profile="realtime")
    cluster = {"master": "local-cluster[2,1,1024]", "environment": environment(**PYTHON)}
    try:
        with Load(world, stage) as load, running_stage(world, stage, *settings(), **cluster) as running:
            more(world, stage, 500, running)
            for _ in range(rounds(1, 10)):
                wait_until(lambda: len(executors()) == 2, what="two executors")
                kill(executors()[0])
                more(world, stage, 500, running)
            load.stop()
            running.wait_until(lambda: len(world.seen(stage)) >= load.sent, what="all events")
            running.tell()
            assert running.end() == 0, running.told()
    finally:
        shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)
    assert world.ids(stage) == Counter(range(load.sent))

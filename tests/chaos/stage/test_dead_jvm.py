"""A JVM that is killed, as the system does where memory runs short, ends its stage, which says so."""

import psutil
import pytest

from tests.support.processes import kill
from tests.support.seed import variants
from tests.support.stage.world import running_stage


def jvm_of(pid):
    return next(each.pid for each in psutil.Process(pid).children(recursive=True) if each.name() == "java")


@pytest.mark.parametrize("profile", variants("realtime", "latency"))
def test_a_stage_whose_jvm_is_killed_ends_and_says_why(world, profile):
    stage = world.stage("enrich", [], profile=profile)
    world.send(stage, [{"id": 0}])
    with running_stage(world, stage) as running:
        running.wait_until(lambda: len(world.seen(stage)) == 1, what="the event")
        kill(jvm_of(running.pid))
        assert running.end() == 5, running.told()
    assert "error: Spark's JVM has ended with the signal SIGKILL" in running.told()
    assert "this is a bug" not in running.told()

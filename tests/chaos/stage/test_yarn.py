"""A stage on a real YARN of two node managers, from a packed environment: as a client and in cluster mode, with
containers that are killed."""

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from enrich.host.ipc.store_paths import paths_of
from enrich.stage.spark.package import package
from enrich.stage.spark.session import connector_jars
from tests.support.commands import enrich
from tests.support.processes import kill
from tests.support.seed import variants
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.spark.standalone import STAGE_JOB, SUBMIT
from tests.support.stage.world import SLOW_POLLING, Load, run_to_the_end, running_stage
from tests.support.waiting import GUARD_S, wait_until
from tests.support.yarn import yarn_cluster

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}
UNPACKED_S = 900.0
"""Containers wait for 0.8 GB that are copied and unpacked: minutes, on a disk that others use."""


@pytest.fixture(scope="module")
def archive():
    # Not kept as pytest keeps its folders: it has 0.8 GB.
    with TemporaryDirectory(prefix="packed-") as folder:
        path = Path(folder, "environment.tar.gz")
        package(path, level=0)
        yield path


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    with yarn_cluster(tmp_path_factory.mktemp("yarn")) as running:
        yield running


def sized(executors):
    return [
        # YARN adds a filter to Spark's page as it starts, and a driver ended of a ConcurrentModificationException.
        *("--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.executor.instances={executors}"),
        *("--conf", "spark.executor.memory=512m"),
        *("--conf", "spark.executor.memoryOverhead=512m"),
        *("--conf", f"spark.executor.extraJavaOptions={quick_jvm()}"),
        # The driver waits for all of them, for as long as an archive takes to be unpacked.
        *("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
        *("--conf", "spark.scheduler.maxRegisteredResourcesWaitingTime=5min"),
    ]


def holders(world):
    """Who needs the agent, by process id."""
    return {int(lease.name.partition("-")[0]) for lease in paths_of(world.pipeline).leases.iterdir()}


def an_executor_is_replaced(world, yarn, archive, profile="latency"):
    """As a client: executors in containers share an agent, which outlives them."""
    world.users()
    stage = world.stage("enrich", [LOOKUP], profile=profile)
    words = [*yarn.settings(), *sized(2), "--conf", f"spark.yarn.dist.archives={archive}#environment"]
    environment = yarn.environment(PYSPARK_PYTHON="./environment/bin/python")
    with (
        Load(world, stage) as load,
        running_stage(world, stage, *words, master="yarn", environment=environment) as running,
    ):
        running.wait_until(lambda: world.records(stage) >= 500, what="output", deadline_s=UNPACKED_S)
        running.wait_until(lambda: len(yarn.executors()) == 2, what="two containers", deadline_s=UNPACKED_S)
        both = yarn.executors()
        agent = psutil.Process(world.agent_pid())
        running.wait_until(lambda: {each.pid for each in both} <= holders(world), what="leases of both")
        # Its modules are those of the archive, which YARN has unpacked for one container or the other.
        mapped = {each.path for each in agent.memory_maps() if "/site-packages/" in each.path}
        assert mapped
        assert [path for path in mapped if "/environment.tar.gz/lib/" not in path] == []
        assert "/container_" not in agent.cmdline()[0], "it runs from a folder that goes with a container"
        kill(both[0].pid)
        done = world.records(stage)
        running.wait_until(lambda: world.records(stage) >= done + 500, what="output after the kill")
        running.wait_until(
            lambda: len(yarn.executors()) == 2, what="the container's replacement", deadline_s=UNPACKED_S
        )
        assert world.agent_pid() == agent.pid
        running.tell()
        assert running.end() == 0, running.told()
    run_to_the_end(world, stage, load)  # wherever: the rest is only to be done
    assert set(world.ids(stage)) == set(range(load.sent))
    if profile == "realtime":
        assert world.ids(stage).total() == load.sent, "an event is written twice"


def a_driver_goes_on_in_another_container(world, yarn, archive):
    """In cluster mode."""
    world.users()
    stage = world.stage("enrich", [LOOKUP])
    words: list[str | Path] = [SUBMIT, "--master", "yarn", "--deploy-mode", "cluster", "--name", "enrich"]
    words += [*yarn.settings(), *sized(1), "--archives", f"{archive}#environment", "--files", world.file]
    words += ["--jars", ",".join(map(str, connector_jars()))]
    words += ["--conf", "spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python"]
    words += ["--conf", f"spark.driver.extraJavaOptions={quick_jvm()}", "--conf", "spark.driver.memory=512m"]
    for name, value in SLOW_POLLING.items():
        words += ["--conf", f"{name}={value}"]
    words += [STAGE_JOB, stage, "-c", world.file.name]
    told = world.folder / "submit.log"
    with told.open("wb") as log:
        submitted = subprocess.Popen(words, cwd=world.folder, env=yarn.environment(), stdout=log, stderr=log)
    try:

        def reached(records):
            assert submitted.poll() is None, told.read_text()
            return world.records(stage) >= records

        with Load(world, stage) as load:
            wait_until(lambda: reached(500), what="output", deadline_s=UNPACKED_S)
            (driver,) = yarn.drivers()
            kill(driver.pid)
            wait_until(yarn.drivers, what="another driver", deadline_s=UNPACKED_S)
            done = world.records(stage)
            wait_until(lambda: reached(done + 500), what="its output", deadline_s=UNPACKED_S)
        wait_until(lambda: len(world.seen(stage)) >= load.sent, what="all events")
        stopped = enrich("stop", stage, "-c", world.file)
        assert stopped.returncode == 0, stopped.stderr
        assert submitted.wait(GUARD_S) == 0, told.read_text()
        assert "final status: SUCCEEDED" in told.read_text()
    finally:
        submitted.kill()
        submitted.wait()
    assert set(world.ids(stage)) == set(range(load.sent))


KILLED: dict[str, Callable[..., None]] = {
    "executor": an_executor_is_replaced,
    "realtime executor": partial(an_executor_is_replaced, profile="realtime"),
    "driver": a_driver_goes_on_in_another_container,
}


@pytest.mark.parametrize("killed", variants(*KILLED))
def test_what_is_killed_is_replaced_and_no_event_is_lost(world, yarn, archive, killed):
    KILLED[killed](world, yarn, archive)

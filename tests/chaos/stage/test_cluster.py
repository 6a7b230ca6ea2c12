"""A stage on a real cluster: executors of one host share an agent, one that is killed is replaced, and none connects to
anything but brokers and Spark. From a packed environment: test_yarn.py."""

import shutil
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
import pytest
import redis

from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.spawn import ensure_agent
from tests.support.processes import kill, python_workers
from tests.support.seed import rounds, variants
from tests.support.spark.quick_jvm import quick_jvm
from tests.support.spark.standalone import (
    HOST,
    PYTHON,
    Connections,
    environment,
    executors,
    sparks_ports,
    standalone_cluster,
)
from tests.support.stage.world import PINNABLE, Load, StageWorld, run_to_the_end, running_stage
from tests.support.waiting import wait_until

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}


def settings() -> list[str]:
    return [
        *("--conf", f"spark.driver.host={HOST}"),
        *("--conf", f"spark.executor.extraJavaOptions={quick_jvm()}"),
        # The driver waits for both executors, so that both preload.
        *("--conf", "spark.cores.max=2"),
        *("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"),
    ]


@pytest.fixture(scope="module")
def connections(tmp_path_factory):
    assert shutil.which("strace"), "strace is missing: install it (Debian: strace)"
    return Connections(tmp_path_factory.mktemp("connections"))


@pytest.fixture(scope="module")
def masters(connections, tmp_path_factory):
    """Addresses by name. The second cluster is made by Spark itself, inside the driver's JVM."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), connections) as standalone:
        yield {"standalone": standalone, "local-cluster": "local-cluster[2,1,1024]"}
    # Where Spark's own cluster keeps what its executors said; nothing else makes such a folder.
    shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)


@pytest.mark.parametrize(("kind", "replay"), variants(("standalone", "latest"), ("local-cluster", "deterministic")))
def test_executors_of_a_host_share_an_agent_and_one_that_is_killed_is_replaced(
    cluster, tmp_path, masters, kind, replay
):
    world = StageWorld(cluster, tmp_path, partitions=4)
    world.users(**PINNABLE)
    stage = world.stage("enrich", [LOOKUP], replay=replay, lineage=True)
    paths = paths_of(world.pipeline)
    # strace stays as long as anything that it follows, and the worker waits for it: the agent is nobody's child.
    ensure_agent(world.pipeline, linger_s=300)
    with (
        Load(world, stage) as load,
        running_stage(world, stage, *settings(), master=masters[kind], environment=environment(**PYTHON)) as running,
    ):

        def at_work():
            assert not running.has_ended(), running.told()
            both = executors()
            return both if len(both) == 2 else None

        def reached(records):
            assert not running.has_ended(), running.told()
            return world.records(stage) >= records

        def holders():
            return {int(lease.name.partition("-")[0]) for lease in paths.leases.iterdir()}

        wait_until(lambda: reached(500), what="output")
        assert set(wait_until(at_work, what="two executors")) <= holders(), "an executor has no lease of the agent"
        for _ in range(rounds(1, 5)):
            both = wait_until(at_work, what="two executors")
            # One that has tasks: Spark gives a partition always to the same executor.
            both.sort(key=lambda each: not python_workers(each))
            # One that has replaced another takes a lease with its first task.
            wait_until(lambda: both[0] in holders(), what="its lease of the agent")  # noqa: B023
            agent = world.agent_pid()
            kill(both[0])
            world.put("users", {"ann": {"plan": "another", "region": None}})
            done = world.records(stage)
            wait_until(lambda: reached(done + 500), what="output after the kill")  # noqa: B023
            replaced = wait_until(at_work, what="the executor's replacement")
            assert both[0] not in replaced
            assert world.agent_pid() == agent, "the agent ended with an executor"
        # One store, whose writer holds its lock: a second agent would have ended at once, a third folder be a store.
        assert [each.name for each in paths.folder.parent.iterdir()] == [paths.folder.name]
    run_to_the_end(world, stage, load)  # wherever: the rest is only to be done
    copies = world.copies(stage)
    assert set(copies) == set(range(load.sent))
    # A killed driver repeats its last second and a batch, or that alone, a killed executor what it had written of it.
    assert max(each.total() for each in copies.values()) <= 2 + rounds(1, 5)
    if replay == "deterministic":
        assert all(len(values) == 1 for values in copies.values()), "copies of an event differ"
    world.close()


def test_no_executor_connects_to_anything_but_the_brokers(world, masters, connections, stack, tmp_path):
    world.users()
    # A table that comes from Redis: somebody has to connect to it, and no executor does.
    world.document["tables"]["limits"] = {
        "loader": {"redis": stack.redis_url, "pattern": "limit:*"},
        "format": "string",
        "columns": "value string",
    }
    with redis.Redis.from_url(stack.redis_url) as client:
        client.set("limit:ann", "7")
    stage = world.stage("enrich", [LOOKUP, {"table": "limits", "key": "user_id", "as": "limit"}])
    world.send(stage, [{"id": number, "user_id": "ann"} for number in range(100)])
    agent = ensure_agent(world.pipeline, linger_s=300)  # executors start no other, whose connections would be theirs
    # What shows that a connection would be seen: the workers' Python makes one as it starts.
    with socket.create_server((HOST, 0)) as canary:
        port = canary.getsockname()[1]
        (tmp_path / "sitecustomize.py").write_text(f"import socket\nsocket.create_connection(('{HOST}', {port}))\n")
        words = [*settings(), "--conf", f"spark.executorEnv.PYTHONPATH={tmp_path}"]
        connections.forget()
        with running_stage(
            world, stage, *words, master=masters["standalone"], environment=environment(**PYTHON)
        ) as running:
            world.until(stage, 100)
            sparks = sparks_ports()
            running.tell()
            assert running.end() == 0, running.told()
    assert world.agent_pid() == agent.pid
    assert urlsplit(stack.redis_url).port not in sparks
    broker = int(stack.bootstrap_servers.rpartition(":")[2])
    found = connections.ports()
    assert broker in found, "the executors' connections are not seen"
    assert found - sparks - {broker} == {port}

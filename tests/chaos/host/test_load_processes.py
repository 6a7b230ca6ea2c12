"""Tables are loaded by processes of their own: killed at any moment they leave nothing, and they outlive nobody."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from enrich.config import load_text
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from enrich.host.reader.spawn import ensure_agent, stop_agent
from tests.support.host.ending import kill_agent_of
from tests.support.processes import is_running, kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

ROWS = 100_000
"""So many that a load reads them in a process of its own."""


@pytest.fixture
def pipeline(cluster, stack, new_topic, tmp_path):
    topic = new_topic(partitions=2, cleanup_policy="compact")
    cluster.produce(topic, ((f"user:{n}".encode(), json.dumps({"plan": f"p{n}"}).encode()) for n in range(ROWS)))
    pipeline = load_text(
        f"name: test\nkafka: {{bootstrap_servers: '{stack.bootstrap_servers}'}}\nstate_dir: {tmp_path}/state\n"
        f"tables:\n  users: {{topic: {topic}, format: json, columns: 'plan string'}}\n"
    )
    yield pipeline
    kill_agent_of(pipeline)


def loading(agent_pid):
    """The processes that load: children of the agent's only child."""
    return [child for template in psutil.Process(agent_pid).children() for child in template.children()]


def one_loading(agent_pid):
    processes = wait_until(lambda: loading(agent_pid), what="a process that loads")
    return processes[0].pid


def one_reading(agent_pid):
    """A process that reads the topic for one that loads."""

    def reading():
        with suppress(psutil.NoSuchProcess):
            return [child for load in loading(agent_pid) for child in load.children()]
        return []

    return wait_until(reading, what="a process that reads")[0].pid


def test_a_load_of_which_a_process_was_killed_is_begun_again(pipeline):
    choice = random_source("kill a load")
    for _ in range(rounds(2, 20)):
        agent = ensure_agent(pipeline).pid
        pid = choice.choice([one_loading, one_reading])(agent)
        if choice.random() < 0.5:
            wait_until(lambda: work_of(pipeline), what="the load's directory")
        kill(pid)
        reader = AgentReader(pipeline)
        snapshot = reader.wait_until_ready(deadline_s=120)
        keys = {version.key.decode() for version in snapshot.table("users").scan()}
        assert keys == {f"user:{n}" for n in range(ROWS)}
        assert snapshot.header.pid == agent
        wait_until(lambda: not work_of(pipeline), what="no file of a load")
        reader.close()
        kill_agent_of(pipeline)
        remove_store(pipeline)


def test_neither_template_nor_load_outlives_an_agent_that_is_killed(pipeline):
    agent = ensure_agent(pipeline).pid
    # Once it has asked for a directory it is past its first steps, of which one is to tell the kernel.
    wait_until(lambda: work_of(pipeline), what="the load's directory")
    one_reading(agent)
    family = psutil.Process(agent).children(recursive=True)
    assert len(family) >= 3
    for process in family:
        process.suspend()  # it cannot notice anything by itself
    try:
        kill(agent)
        _, left = psutil.wait_procs(family, timeout=60)
        assert not [process for process in left if is_running(process.pid)]
    finally:
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def test_an_agent_that_is_told_to_stop_waits_for_no_load(pipeline):
    agent = ensure_agent(pipeline)
    load, reading = one_loading(agent.pid), one_reading(agent.pid)
    wait_until(lambda: work_of(pipeline), what="the load's directory")
    psutil.Process(load).suspend()  # as one that sorts for minutes: it asks nobody anything
    stop_agent(paths_of(pipeline), agent, deadline_s=60)
    wait_until(lambda: not is_running(load) and not is_running(reading), what="the end of the load")
    reader = AgentReader(pipeline)
    assert len(list(reader.wait_until_ready(deadline_s=120).table("users").scan())) == ROWS
    reader.close()


def test_no_other_process_holds_the_lock_of_an_agent(pipeline):
    agent = ensure_agent(pipeline).pid
    one_loading(agent)
    lock = str(paths_of(pipeline).lock)
    assert lock in open_files(agent)
    for process in psutil.Process(agent).children(recursive=True):
        assert lock not in open_files(process.pid)


def open_files(pid):
    """What it has open. Files are closed and loads end while they are looked at."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.append(str(descriptor.readlink()))
    return found


def work_of(pipeline):
    folder = paths_of(pipeline).rows / "bulk"
    return list(folder.iterdir()) if folder.exists() else []


def remove_store(pipeline):
    shutil.rmtree(pipeline.state_dir)

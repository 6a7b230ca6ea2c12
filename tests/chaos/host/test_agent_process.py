"""The agent as a process: one a host, started by whoever reads, replaced when it dies, gone when not needed."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from enrich.config import load_text
from enrich.config.wire import to_wire
from enrich.host.ipc.lock import StoreLock
from enrich.host.ipc.store_paths import StorePaths, paths_of
from enrich.host.reader.reading import AgentReader
from enrich.host.reader.spawn import ensure_agent, living_agent
from stores.table import Status
from tests.support.host.ending import kill_agent_of
from tests.support.processes import frozen, is_running, kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

PIPELINE = """
name: test
kafka: {{bootstrap_servers: "{servers}"}}
state_dir: {state_dir}
tables:
  users: {{topic: {topic}, format: json, columns: "plan string"}}
"""


@pytest.fixture
def topic(new_topic):
    return new_topic(partitions=2, cleanup_policy="compact")


@pytest.fixture
def pipeline(cluster, stack, topic, tmp_path):
    text = PIPELINE.format(servers=stack.bootstrap_servers, state_dir=tmp_path / "state", topic=topic)
    pipeline = load_text(text)
    yield pipeline
    kill_agent_of(pipeline)


@pytest.fixture
def reader(pipeline):
    reader = AgentReader(pipeline)
    yield reader
    reader.close()


def produce(cluster, topic, **plans):
    rows = {key: None if plan is None else json.dumps({"plan": plan}).encode() for key, plan in plans.items()}
    cluster.produce(topic, [(key.encode(), row) for key, row in rows.items()])


def plan(reader, key):
    found = reader.snapshot().table("users").lookup(pa.array([key]), ["plan"])
    (value,) = found.values.to_pylist()
    return Status(found.status[0].as_py()).name if value is None else value["plan"]


def test_a_reader_gets_an_agent_started_and_sees_updates(cluster, topic, reader):
    produce(cluster, topic, ann="free")
    reader.wait_until_ready(deadline_s=120)
    assert plan(reader, "ann") == "free"
    produce(cluster, topic, ann="pro", bob="new")
    wait_until(lambda: (plan(reader, "ann"), plan(reader, "bob")) == ("pro", "new"), what="the updates")


def test_many_readers_at_once_get_one_agent(pipeline):
    with ThreadPoolExecutor(8) as threads:
        headers = list(threads.map(lambda _: ensure_agent(pipeline), range(8)))
    assert len({header.pid for header in headers}) == 1


def test_of_agents_that_are_started_at_once_all_but_one_end_before_they_take_time_or_memory(pipeline):
    lock = str(paths_of(pipeline).lock)
    start = json.dumps({"lock": lock, "pipeline": to_wire(pipeline), "linger_s": 0.1})

    def imported():
        command = [sys.executable, "-X", "importtime", "-m", "enrich.host"]
        done = subprocess.run(command, input=start, capture_output=True, text=True, check=True, timeout=120)
        return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    ensure_agent(pipeline)
    assert "enrich.host.ipc.lock" in imported()
    assert not {"pyarrow", "confluent_kafka", "rocksdict", "pydantic"} & imported()


@pytest.mark.parametrize("what", ["its store has another place", "its configuration has other keys"])
def test_an_agent_does_not_run_for_a_program_whose_files_were_replaced_and_tells_it(pipeline, what):
    paths, wire = paths_of(pipeline), json.loads(to_wire(pipeline))
    if what == "its store has another place":
        paths = StorePaths(paths.folder.with_name(f"2-{'0' * 16}"))
    else:
        wire["gone"] = 5
    start = json.dumps({"lock": str(paths.lock), "pipeline": json.dumps(wire), "linger_s": 60})
    subprocess.run([sys.executable, "-m", "enrich.host"], input=start, text=True, check=True, timeout=120)
    wait_until(lambda: paths.log.exists() and "start that program again" in paths.log.read_text(), what="its word")
    wait_until(lambda: StoreLock.try_take(paths.lock), what="its end")
    assert not paths.header.exists()


def test_an_agent_killed_at_any_instant_is_replaced_and_nothing_is_lost_or_goes_back(cluster, topic, pipeline, reader):
    random = random_source("agent-kill")
    reader.wait_until_ready(deadline_s=120)
    seen = last = -1
    for last in range(rounds(3, 50)):
        produce(cluster, topic, **{f"k{one}": str(last) for one in range(random.randrange(1, 200))}, ann=str(last))
        pid = reader.header().pid
        for _ in range(random.randrange(20)):
            seen = max(seen, newest(reader))
        kill(pid)
        assert newest(reader) >= seen
    wait_until(lambda: newest(reader) == last, what="the last update")
    assert store_rows(reader, cluster_rows(cluster, topic)) == cluster_rows(cluster, topic)


def newest(reader):
    found = plan(reader, "ann")
    return int(found) if found.isdigit() else -1


def cluster_rows(cluster, topic):
    newest = {message.key(): message.value() for message in cluster.messages(topic)}
    return [(key.decode(), json.loads(value)["plan"]) for key, value in newest.items() if value is not None]


def store_rows(reader, expected):
    keys = [key for key, _ in expected]
    found = reader.wait_until_ready(deadline_s=120).table("users").lookup(pa.array(keys), ["plan"])
    return [(key, value and value["plan"]) for key, value in zip(keys, found.values.to_pylist(), strict=True)]


def test_a_frozen_agent_keeps_the_store_and_goes_on_afterwards(cluster, topic, pipeline, reader):
    reader.wait_until_ready(deadline_s=120)
    pid = reader.header().pid
    with frozen(pid):
        wait_until(lambda: living_agent(paths_of(pipeline)) is None, what="the loss of its heartbeat")
    assert ensure_agent(pipeline).pid == pid
    produce(cluster, topic, ann="after")
    wait_until(lambda: plan(reader, "ann") == "after", what="the update")


def test_an_agent_whose_directory_is_deleted_stops_and_another_starts_over(cluster, topic, pipeline):
    produce(cluster, topic, ann="free")
    first = ensure_agent(pipeline)
    folder = paths_of(pipeline).folder
    # It writes on until it notices, into what is just being deleted too.

    def is_gone():
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    wait_until(is_gone, what="the directory's end")
    wait_until(lambda: not is_running(first.pid), what="the end of the fenced agent")
    reader = AgentReader(pipeline)
    reader.wait_until_ready(deadline_s=120)
    assert plan(reader, "ann") == "free"
    assert reader.header().pid != first.pid
    reader.close()


def test_an_agent_that_nobody_needs_any_more_leaves(pipeline):
    header = ensure_agent(pipeline, linger_s=0.5, holder=lambda: 2**22 + 1)  # no such process
    wait_until(lambda: not is_running(header.pid), what="the agent's leaving")


def test_an_agent_stays_while_the_executor_lives_although_the_worker_has_ended(pipeline):
    header = ensure_agent(pipeline, linger_s=1.2, holder=os.getpid)
    watched_until = header.heartbeat_ms + 3_000
    wait_until(lambda: heartbeat(pipeline) > watched_until, what="a later heartbeat")
    assert is_running(header.pid)


def heartbeat(pipeline):
    header = living_agent(paths_of(pipeline))
    assert header is not None
    return header.heartbeat_ms


def test_secrets_are_neither_in_its_arguments_nor_its_environment_nor_on_disk(stack, topic, tmp_path):
    secret = secrets.token_hex(16)
    text = PIPELINE.format(servers=stack.bootstrap_servers, state_dir=tmp_path / "state", topic=topic)
    registry = "registry: {url: 'http://127.0.0.1:1', username: u, password: '${SECRET}'}"
    text = text.replace("kafka: {", f"kafka: {{{registry}, ")
    pipeline = load_text(text, {"SECRET": secret})
    pid = ensure_agent(pipeline).pid
    try:
        for name in ("cmdline", "environ"):
            assert secret.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
        for path in paths_of(pipeline).folder.rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
        assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    finally:
        kill(pid)

"""The agent is killed while it takes a snapshot in: the table is the old one or the new one, never a part of either."""

import json
import time

import pytest

from enrich.admin.snapshots.exporting import export_from_reader
from enrich.config import load_text
from enrich.host.ipc.imports import ImportRequest
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from enrich.host.reader.spawn import living_agent
from stores.clock import SystemClock
from tests.support.processes import is_running, kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

ROWS = 30_000
PIPELINE = """
name: test
kafka: {{bootstrap_servers: "{servers}"}}
state_dir: {state_dir}
tables:
  users: {{topic: {topic}, format: json, columns: "plan string"}}
"""


@pytest.fixture
def topic(cluster, new_topic):
    name = new_topic(partitions=2, cleanup_policy="compact")
    cluster.produce(name, ((b"u%d" % n, json.dumps({"plan": str(n)}).encode()) for n in range(ROWS)))
    return name


@pytest.fixture
def pipeline(stack, topic, tmp_path):
    text = PIPELINE.format(servers=stack.bootstrap_servers, state_dir=tmp_path / "state", topic=topic)
    pipeline = load_text(text)
    yield pipeline
    header = living_agent(paths_of(pipeline))
    if header is not None and is_running(header.pid):
        kill(header.pid)


def test_kill_9_at_any_instant_of_an_import_leaves_a_whole_table(cluster, pipeline, topic, tmp_path):
    random = random_source("kill an import")
    snapshot = export_from_reader(
        pipeline,
        "users",
        tmp_path / "snapshots",
        SystemClock(),
        deadline_s=180,
        report_waiting=lambda _: None,
        report_rows=lambda *_: None,
    )
    paths = paths_of(pipeline)
    reader = AgentReader(pipeline)
    interrupted = 0
    for number in range(rounds(4, 30)):
        pid = reader.header().pid
        cluster.produce(topic, [(b"newest", json.dumps({"plan": str(number)}).encode())])
        request = ImportRequest(paths.imports, "users", snapshot.path)
        wait_until(lambda: not list(paths.imports.glob("*.request")), what="the agent's taking the request")
        # The instant of the kill is what is random; but for the first, before any machine can be done.
        time.sleep(random.uniform(0, 0.6) if number else 0)
        kill(pid)
        wait_until(lambda: reader.header().pid != pid, what="the next agent")  # noqa: B023
        view = reader.wait_until_ready(deadline_s=180).table("users")
        assert sum(version.value is not None for version in view.scan()) == ROWS + 1
        assert view.versions(b"newest")[-1].value == b'{"plan": "%d"}' % number
        outcome = wait_until(request.outcome, what="the outcome")
        assert outcome is not None
        interrupted += outcome.refused is not None
        assert outcome.rows is None or outcome.rows >= ROWS
    reader.close()
    assert interrupted

"""An agent, and commands, whose brokers fall silent without a word."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka.topics import Cluster
from tests.support.links.two_hosts import BROKER, Client, silent
from tests.support.waiting import wait_until


@pytest.fixture
def pipeline(cluster: Cluster, tmp_path: Path) -> Path:
    cluster.topics.create("users.v1", partitions=1, config={"cleanup.policy": "compact"})
    put(cluster, "ann", "free")
    table: dict[str, Any] = {"topic": "users.v1", "format": "json", "columns": "plan string"}
    table["freshness"] = {"bound": "2s", "on_stale": "fail", "deadline": "30s"}
    data = {
        "name": "silent",
        "kafka": {"bootstrap_servers": cluster.connection["bootstrap.servers"]},
        "state_dir": str(tmp_path / "state"),
        "tables": {"users": table},
    }
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(data))
    return path


def put(cluster: Cluster, user: str, plan: str) -> None:
    cluster.produce("users.v1", [(user.encode(), json.dumps({"plan": plan}).encode())])


def test_an_agent_says_that_the_brokers_are_silent_and_follows_them_again(
    client: Client, cluster: Cluster, pipeline: Path
) -> None:
    try:
        (row,) = client.json("table", "get", "users", "ann", "-c", pipeline)
        assert row["value"] == {"plan": "free"}

        def status() -> dict[str, Any]:
            return client.json("agent", "status", "-c", pipeline)[0]

        with silent(BROKER):
            put(cluster, "ann", "pro")
            wait_until(lambda: BROKER in json.dumps(status()), deadline_s=60, what="the agent to name who is silent")
            done = client.enrich("table", "get", "users", "ann", "--from-topic", "-c", pipeline)
            assert (done.returncode, BROKER in done.stderr) == (3, True), done.stderr
            done = client.enrich("topics", "check", "-c", pipeline)
            assert (done.returncode, BROKER in done.stderr) == (3, True), done.stderr

        def plan() -> Any:
            return client.json("table", "get", "users", "ann", "-c", pipeline)[0]["value"]["plan"]

        wait_until(lambda: plan() == "pro", deadline_s=60, what="the row that was written meanwhile")
    finally:
        client.enrich("agent", "stop", "-c", pipeline)

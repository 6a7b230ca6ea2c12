"""`enrich table stats` and `enrich agent status`: by which way a table is read, and what it takes."""

import json

import pytest

from enrich.config import load
from tests.support.commands import enrich
from tests.support.host.ending import stop_agent_of
from tests.support.waiting import wait_until

ROWS = 500


@pytest.fixture
def config(stack, cluster, new_topic, tmp_path):
    topic = new_topic(cleanup_policy="compact")
    cluster.produce(topic, ((f"u{n}".encode(), b'{"plan": "%d"}' % n) for n in range(ROWS)))
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"name: test\nkafka: {{bootstrap_servers: '{stack.bootstrap_servers}'}}\nstate_dir: {tmp_path}/state\ntables:\n"
        f"  users: {{topic: {topic}, format: json, columns: 'plan string', history: 1h}}\n"
        f"  on_disk: {{topic: {topic}, format: json, columns: 'plan string', access: rocks}}\n"
    )
    yield path
    stop_agent_of(load(path))


def stats(config, *table):
    done = enrich("table", "stats", *table, "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    return {line["table"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_stats_name_rows_bytes_segments_history_floor_and_memory_and_status_the_way(config):
    found = wait_until(lambda: with_segments(stats(config)), what="segments")
    users, on_disk = found["users"], found["on_disk"]
    assert users["rows"] == on_disk["rows"] == ROWS
    assert (users["read_from"], users["access"], users["why_not_segments"]) == ("segments", "auto", None)
    assert users["segment_versions"] == ROWS
    assert 0 < users["segment_bytes_in_memory"] <= users["segment_bytes"]
    assert users["history_ms"] == 3_600_000
    assert users["floor"] == max(floor["timestamp"] for floor in users["floors"].values()) > 0
    assert users["positions"] == {"0": ROWS}
    assert users["complete_through"] >= users["floor"]
    assert (on_disk["read_from"], on_disk["segments"], on_disk["why_not_segments"]) == ("rocksdb", None, None)
    assert on_disk["rocksdb_bytes"] > 0
    assert set(stats(config, "on_disk")) == {"on_disk"}
    shown = enrich("table", "stats", "-c", config).stdout
    assert [word for word in shown.split() if word in ("users", "segments")][-2:] == ["users", "segments"]
    one = enrich("table", "stats", "users", "-c", config).stdout
    assert "read from         segments (access: auto)" in one
    assert "expired before it" in one
    assert enrich("table", "stats", "nobody", "-c", config).returncode == 2
    status = enrich("agent", "status", "-c", config, "--json").stdout.splitlines()
    assert {one["table"]: one["read_from"] for one in map(json.loads, status)} == {
        "users": "segments",
        "on_disk": "rocksdb",
    }
    assert "segments 0 of" in enrich("agent", "status", "-c", config).stdout


def with_segments(found):
    return found if found["users"]["read_from"] == "segments" else None


def test_a_budget_without_room_leaves_auto_to_rocksdb_and_says_so(config):
    config.write_text(config.read_text() + "memory: {budget: 423MiB, max_readers: 1}\n")
    users = stats(config)["users"]
    assert users["read_from"] == "rocksdb"
    assert "memory.budget leaves no room" in users["why_not_segments"]

"""Tables with a loader, as people and scripts see them: the agent's own process, started by the first command."""

import json

import pytest
import redis

from enrich.config import load
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import AgentReader
from tests.support.commands import enrich, lines
from tests.support.host.ending import stop_agent_of
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.servers.redis_server import redis_server
from tests.support.waiting import wait_until

SECRET = "loader-s3cret"  # noqa: S105 - of a server that lives as long as the test


@pytest.fixture
def server(tmp_path):
    with redis_server(tmp_path) as server:
        server.start("--requirepass", SECRET)
        yield server


@pytest.fixture
def client(server):
    return redis.Redis(port=server.port, password=SECRET)


@pytest.fixture
def config(server, tmp_path):
    path = tmp_path / "pipeline.yaml"
    url = f"redis://:{SECRET}@127.0.0.1:{server.port}/0"
    path.write_text(
        f"name: test\nkafka: {{bootstrap_servers: '127.0.0.1:1'}}\nstate_dir: {tmp_path}/state\ntables:\n"
        f"  limits: {{loader: {{redis: '{url}', pattern: 'limit:*'}}, refresh: 200ms, format: json,\n"
        "    columns: 'rps int'}\n"
    )
    yield path
    stop_agent_of(load(path))


def test_rows_are_got_and_scanned_and_the_status_tells_how_the_table_is(config, server, client):
    client.mset({"limit:ann": '{"rps": 1}', "limit:bob": '{"rps": 2}', "limit:eve": "no json"})
    done = enrich("table", "get", "limits", "ann", "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = lines(done)
    assert (row["key"], row["value"], row["partition"]) == ("ann", {"rps": 1}, 0)
    assert [row["key"] for row in lines(enrich("table", "scan", "limits", "-c", config, "--json"))] == ["ann", "bob"]

    client.delete("limit:bob")
    reader = AgentReader(load(config))
    wait_until(lambda: versions(reader)["bob"].value is None, what="the deletion")
    (status,) = lines(enrich("agent", "status", "-c", config, "--json"))
    assert (status["ready"], status["rows"], status["quarantined"], status["reason"]) == (True, 2, 1, None)
    assert status["behind_s"] < 30
    (bad,) = lines(enrich("quarantine", "list", "limits", "-c", config, "--json"))
    assert (bad["partition"], "reason" in bad) == (0, True)

    server.kill()
    wait_until(lambda: "Redis" in str(reader.header().tables["limits"].reason), what="the reason")
    reader.close()
    assert "Redis" in enrich("agent", "status", "-c", config).stdout
    assert lines(enrich("table", "get", "limits", "ann", "-c", config, "--json")) == [row]
    for path in paths_of(load(config)).folder.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_server_that_is_down_is_the_reason_at_the_deadline(config, server):
    server.kill()
    reader = AgentReader(load(config))
    wait_until(lambda: reader.header().tables["limits"].reason not in (None, "loading"), what="the reason")
    reader.close()
    done = enrich("table", "get", "limits", "ann", "-c", config, "--deadline", "0")
    assert done.returncode == 3
    assert "not ready within 0 s: table limits: Redis" in done.stderr
    status = enrich("agent", "status", "-c", config)
    assert (status.returncode, "not ready" in status.stdout) == (1, True)
    assert SECRET not in done.stderr + status.stdout


def test_an_agent_killed_at_any_instant_leaves_each_row_with_its_offset_and_none_is_missing(config, client):
    random = random_source("loader-kill")
    client.mset({f"limit:{number}": '{"rps": 0}' for number in range(500)})
    reader = AgentReader(load(config))
    try:
        before = versions(reader)
        for life in range(rounds(4, 40)):
            changed = {f"{random.randrange(600)}" for _ in range(random.randrange(1, 300))}
            client.mset({f"limit:{key}": json.dumps({"rps": life + 1}) for key in changed})
            wait_until(lambda: random.random() < 0.1, what="an instant")
            kill(reader.header().pid)
            after = wait_until(lambda: versions_of(reader, everything(client)), what="all rows")
            for key, version in before.items():
                assert after[key] == version or after[key].offset > version.offset
                assert after[key] == version or after[key].value != version.value
            offsets = [version.offset for version in after.values()]
            assert len(set(offsets)) == len(offsets)
            before = after
    finally:
        reader.close()


def everything(client):
    keys = client.keys("limit:*")
    return dict(zip((key.decode().removeprefix("limit:") for key in keys), client.mget(keys), strict=True))


def versions(reader):
    snapshot = reader.wait_until_ready(deadline_s=120)
    return {version.key.decode(): version for version in snapshot.table("limits").scan()}


def versions_of(reader, expected):
    """None while other values are there."""
    found = versions(reader)
    return found if {key: version.value for key, version in found.items()} == expected else None

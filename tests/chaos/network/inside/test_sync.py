"""The sync service, whose stores and brokers fall silent in the middle of its work."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.links.two_hosts import BROKER, DATABASES, Client, silent
from tests.support.sync.service import SyncWorld
from tests.support.waiting import wait_until

ROWS = 500


@pytest.fixture
def pipeline(world: SyncWorld, tmp_path: Path) -> Path:
    world.cluster.topics.create("places.v1", partitions=1, config={"cleanup.policy": "compact"})
    world.postgres.execute("CREATE TABLE places (id text PRIMARY KEY, name text)")
    data = world.data_to_both()
    source = {"postgres": {"dsn": world.servers.postgres_dsn, "table": "places", "key": ["id"]}}
    data["sync"]["sources"] = {"in": {"topic": "places.v1", "format": "json", "from": source, "interval": "200ms"}}
    data["sync"]["listen"] = "127.0.0.1:18080"
    data["state_dir"] = str(tmp_path / "state")
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def service(client: Client, pipeline: Path) -> Iterator[subprocess.Popen[bytes]]:
    log = pipeline.with_name("service.log")
    with log.open("wb") as file:
        command = client.command(sys.executable, "-m", "sync_service", "-c", pipeline)
        process = subprocess.Popen(command, stderr=file, stdout=file)
    yield process
    process.terminate()
    try:
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()


def test_a_silent_store_and_a_silent_broker_are_waited_for_and_nothing_is_lost(
    client: Client, world: SyncWorld, pipeline: Path, service: subprocess.Popen[bytes]
) -> None:
    wanted: dict[str, tuple[Any, ...]] = {}

    def produce(plan: str) -> None:
        world.produce(*((f"k{number}", {"plan": plan, "rps": number}) for number in range(ROWS)))
        wanted.update({f"k{number}": (plan, number) for number in range(ROWS)})

    def place(name: str) -> None:
        world.postgres.execute(
            "INSERT INTO places VALUES ('p', %s) ON CONFLICT (id) DO UPDATE SET name = %s", (name, name)
        )

    def in_both() -> bool:
        stores = (world.rows_in_postgres(), world.rows_in_redis())
        return all({key: row[1:] for key, row in store.items()} == wanted for store in stores)

    def in_topic() -> dict[str, str]:
        values = [message.value() for message in world.cluster.messages("places.v1")]
        return json.loads(values[-1] or b"{}") if values else {}

    def errors() -> dict[str, str]:
        assert service.poll() is None
        routes = client.json("sync", "status", "-c", pipeline)
        return {route["name"]: route["last_error"] or "" for route in routes if route["state"] != "running"}

    produce("first")
    place("first")
    wait_until(in_both, what="the first rows in both stores")
    wait_until(lambda: in_topic().get("name") == "first", what="the source's row")

    with silent(DATABASES):
        produce("while the stores were silent")
        # The service's own deadlines are 5 s (Redis) and 10 s (PostgreSQL); a source allows a minute of silence.
        for name in ("out", "table"):
            wait_until(lambda: DATABASES in errors().get(name, ""), deadline_s=120, what=f"route {name} to say so")  # noqa: B023
        wait_until(lambda: DATABASES in errors().get("in", ""), deadline_s=150, what="the source to say so")
    wait_until(in_both, deadline_s=120, what="both stores to be up to date again")
    place("second")
    wait_until(lambda: in_topic().get("name") == "second", deadline_s=120, what="the source to go on")

    with silent(BROKER):
        produce("while the broker was silent")
        place("third")
        wait_until(lambda: BROKER in json.dumps(errors()), deadline_s=150, what="somebody to name the broker")
    wait_until(in_both, deadline_s=180, what="the rows that were produced meanwhile")
    wait_until(lambda: in_topic().get("name") == "third", deadline_s=180, what="the row that was changed meanwhile")
    assert not world.dead_letters(0)

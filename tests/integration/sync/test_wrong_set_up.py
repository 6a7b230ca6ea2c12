"""What a person has to correct ends the service at once, with a message that says what to do, and no secret in it."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from enrich.base.errors import ConfigError, Unreachable
from enrich.config import load_text
from stores.external import RedisAddress, RedisLocation, RedisStore
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def start(world: SyncWorld, to: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(world.data(to)))
    command = [sys.executable, "-m", "sync_service", "-c", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env={**os.environ})


def test_a_wrong_password_of_postgres(world: SyncWorld, tmp_path: Path) -> None:
    world.make_topic()
    dsn = (world.servers.postgres_dsn or "").partition("@")[2]
    done = start(world, world.to_postgres(dsn=f"postgresql://enrich:hunter2@{dsn}"), tmp_path)
    assert done.returncode == 2, done.stderr
    assert "password authentication failed" in done.stderr and "hunter2" not in done.stderr


def test_a_wrong_password_of_redis(world: SyncWorld, tmp_path: Path) -> None:
    world.make_topic()
    world.redis.acl_setuser(world.name, enabled=True, passwords=["+right"], keys=["*"], categories=["+@all"])
    url = (world.servers.redis_url or "").removeprefix("redis://")
    done = start(world, world.to_redis(f"redis://{world.name}:hunter2@{url}"), tmp_path)
    assert done.returncode == 2, done.stderr
    assert "correct the url" in done.stderr and "hunter2" not in done.stderr


def test_an_address_that_names_no_such_redis(world: SyncWorld) -> None:
    world.make_topic()
    url = (world.servers.redis_url or "").rpartition("/")[0]
    with running(world.pipeline(world.to_redis(f"{url}/99"))) as service:
        assert "DB index is out of range" in str(service.wait_ended())
    with running(world.pipeline(world.to_redis(sentinel="mymaster"))) as service:
        assert "whether it names a cluster or a sentinel" in str(service.wait_ended())


def test_a_user_of_redis_without_rights_is_told_before_the_first_row(world: SyncWorld) -> None:
    world.make_topic()
    rights = ["+info", "+ping", "+client", "+get"]
    world.redis.acl_setuser(world.name, enabled=True, passwords=["+pw"], keys=["*"], commands=rights)
    url = (world.servers.redis_url or "").replace("redis://", f"redis://{world.name}:pw@")
    with running(world.pipeline(world.to_redis(url))) as service:
        error = service.wait_ended()
    assert isinstance(error, ConfigError) and "no permissions" in str(error)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (None, "there is no table"),
        ("id text PRIMARY KEY, plan text, rps int, version bigint", "has no column deleted"),
        ("id text PRIMARY KEY, plan text, rps int, version int, deleted boolean", "version is integer"),
        ("id text, plan text, rps int, version bigint, deleted boolean", "no primary key or unique constraint on (id)"),
        (
            "id text PRIMARY KEY, plan text NOT NULL, rps int, version bigint, deleted boolean",
            "plan is NOT NULL, and the mark of a deleted key has no value for it",
        ),
        (
            "id text PRIMARY KEY, plan text, rps int, version bigint, deleted boolean, more int NOT NULL",
            "nothing fills more",
        ),
    ],
)
def test_a_table_that_cannot_hold_the_rows(world: SyncWorld, table: str | None, told: str) -> None:
    world.make_topic()
    if table is not None:
        world.postgres.execute(f"CREATE TABLE {world.name} ({table})")
    with running(world.pipeline(world.to_postgres())) as service:
        error = service.wait_ended()
    assert isinstance(error, ConfigError) and told in str(error)


def test_a_topic_that_is_not_there_is_waited_for(world: SyncWorld) -> None:
    with running(world.pipeline(world.to_redis(), retries=["1s"])) as service:
        wait_until(lambda: "the topic does not exist" in (service.status().last_error or ""))
        world.make_topic()
        world.produce(("a", {"plan": "x"}))
        wait_until(lambda: "a" in world.in_redis())


def test_a_user_without_rights(world: SyncWorld) -> None:
    world.make_topic()
    world.make_table()
    world.postgres.execute(f"CREATE ROLE {world.name} LOGIN PASSWORD 'p'; GRANT SELECT ON {world.name} TO {world.name}")
    address = (world.servers.postgres_dsn or "").partition("@")[2]
    with running(world.pipeline(world.to_postgres(dsn=f"postgresql://{world.name}:p@{address}"))) as service:
        error = service.wait_ended()
    assert "lacks the right to INSERT, UPDATE" in str(error)


def test_what_a_route_falls_over_later_is_told_at_its_start(world: SyncWorld) -> None:
    world.cluster.topics.create(world.topic, config={"cleanup.policy": "delete"})
    data = world.data(world.to_redis(), format="avro")
    data["kafka"]["registry"] = {"url": "http://127.0.0.1:1"}
    with running(load_text(json.dumps(data), {})) as service:
        wait_until(lambda: service.status().details.get("warnings"), what="the warnings")
        policy, registry = service.status().details["warnings"]
    assert "cleanup.policy=delete" in policy and "set cleanup.policy=compact" in policy
    assert "the schema registry did not answer" in registry and "127.0.0.1:1" in registry


def test_another_topic_in_a_used_route_is_told_as_what_it_is(world: SyncWorld) -> None:
    world.make_topic()
    with running(world.pipeline(world.to_redis())) as service:
        wait_until(lambda: service.status().last_progress_ms is not None, what="the route's first note")
    world.cluster.topics.create(f"{world.name}.other", config={"cleanup.policy": "compact"})
    with running(world.pipeline(world.to_redis(), topic=f"{world.name}.other")) as service:
        wait_until(lambda: service.status().last_error, what="the reason")
        told = str(service.status().last_error)
        assert f"{world.name}.other" in told and "`topic:` names another one" in told
        assert service.status().state == "held"


def test_a_server_that_is_no_redis_or_asks_for_no_password_is_told(world: SyncWorld) -> None:
    def store(url: str) -> RedisStore:
        return RedisStore(RedisAddress(url), RedisLocation(f"{world.name}:{{key}}", ["plan"]))

    url = str(world.servers.redis_url)
    with closing(store(url)) as open_to_all:
        assert open_to_all.check() == []
    with closing(store(url.replace("//", "//:not-asked-for@"))) as unasked:
        (warning,) = unasked.check()
        assert "asks for no password" in warning and "not-asked-for" not in warning
    address = str(world.servers.postgres_dsn).rpartition("@")[2].partition("/")[0]
    with closing(store(f"redis://{address}/0")) as other, pytest.raises(Unreachable) as raised:
        other.check()
    assert "something else listens there" in str(raised.value.next_step)

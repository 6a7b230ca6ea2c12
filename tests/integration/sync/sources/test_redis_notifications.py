"""Redis tells which keys are written: changes are in the topic at once, and nothing rests on what it tells."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from enrich.service.routes import RouteState
from tests.support.servers.redis_server import RedisServer, redis_server
from tests.support.sync.service import Running
from tests.support.sync.sources import SourceWorld
from tests.support.waiting import wait_until

TELLS = ("--notify-keyspace-events", "KA")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as found:
        yield found


@contextmanager
def following(source: SourceWorld, url: str, kind: str = "string", interval: str = "1h") -> Iterator[Running]:
    """Reads the keys once, and then again only if something happens."""
    columns = {} if kind == "string" else {"columns": "rps int, plan string"}
    source.origin = {"redis": {"url": url, "pattern": "limit:*", "as": kind, "notifications": True, **columns}}
    source.settings = {"interval": interval, "delete_guard": 0.5}
    source.make_topic()
    with source.running() as service:
        wait_until(lambda: readings(service) > 0, what="the first reading")
        yield service


def readings(service: Running) -> int:
    return service.status("in").counters["readings"]


def _has_read(service: Running, times: int) -> bool:
    return readings(service) >= times


def cut(client: redis.Redis) -> None:
    client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")


def has(source: SourceWorld, rows: dict[str, str]) -> Callable[[], bool]:
    texts = {key.encode(): f'{{"value":"{value}"}}'.encode() for key, value in rows.items()}
    return lambda: source.in_topic() == texts


@pytest.mark.parametrize("kind", ["hash", "json", "string"])
def test_a_change_is_in_the_topic_long_before_the_next_reading(
    source: SourceWorld, server: RedisServer, kind: str
) -> None:
    client: Any = server.start(*TELLS)

    def put(key: str, rps: int) -> None:
        if kind == "hash":
            client.hset(key, mapping={"rps": rps, "plan": "pro"})
        else:
            client.set(key, f'{{"rps":{rps},"plan":"pro"}}' if kind == "json" else f"text {rps}")

    text = '{"value":"text %d"}' if kind == "string" else '{"rps":%d,"plan":"pro"}'
    put("limit:1", 1)
    with following(source, server.url, kind):
        for rps in range(700):
            put(f"limit:{rps % 600}", rps)
        put("other", 1)
        rows = {b"%d" % (rps % 600): (text % rps).encode() for rps in range(700)}
        wait_until(lambda: source.in_topic() == rows, what="the rows")
        client.rename("limit:5", "limit:five")
        rows[b"five"] = rows[b"5"]  # the old name goes after two readings without it
        wait_until(lambda: source.in_topic() == rows, what="the row of the new name")


def test_many_changes_one_after_the_other_are_a_line_in_the_log_at_once_and_one_at_the_end(
    source: SourceWorld, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A line for each would fill the disk."""
    caplog.set_level(logging.INFO, "enrich.sync")
    client = server.start(*TELLS)
    with following(source, server.url) as service:
        for number in range(10):
            client.set("limit:a", str(number))
            wait_until(partial(_has_read, service, number + 2), what="the change")
        assert service.status("in").counters["rows_written"] == 10
    lines = [record for record in caplog.records if "rows changed" in record.getMessage()]
    assert [record.getMessage() for record in lines] == ["1 rows changed, 0 deleted", "9 rows changed, 0 deleted"]


def test_what_happens_while_nobody_listens_is_read(source: SourceWorld, server: RedisServer) -> None:
    client = server.start(*TELLS)
    with following(source, server.url) as service:
        client.set("limit:a", "1")
        wait_until(has(source, {"a": "1"}), what="the row")
        with client.pipeline() as together:  # a script of ours cannot cut a connection, but one transaction can
            cut(together)
            together.set("limit:b", "2")
            together.execute()
        wait_until(has(source, {"a": "1", "b": "2"}), what="the row that nobody told of")
        client.set("limit:c", "3")
        wait_until(has(source, {"a": "1", "b": "2", "c": "3"}), what="the row that it told of again")
        server.kill()
        wait_until(lambda: service.status("in").state is RouteState.waiting, what="trouble")
        client = server.start(*TELLS)  # without its rows
        for key, value in (("a", "1"), ("b", "2"), ("c", "4")):
            client.set(f"limit:{key}", value)
        wait_until(has(source, {"a": "1", "b": "2", "c": "4"}), what="the rows of the new server")
        client.set("limit:c", "5")
        wait_until(has(source, {"a": "1", "b": "2", "c": "5"}), what="what the new server told of")


def test_what_is_told_between_two_readings_does_not_count_as_one(source: SourceWorld, server: RedisServer) -> None:
    client = server.start(*TELLS)
    client.set("limit:a", "1")
    with following(source, server.url) as service:
        client.set("limit:b", "1")
        wait_until(has(source, {"a": "1", "b": "1"}), what="both")
        before = service.status("in").counters["rows_read"]
        client.delete("limit:a")
        cut(client)
        wait_until(lambda: service.status("in").counters["rows_read"] > before, what="a reading without a key")
        client.set("limit:b", "2")
        wait_until(has(source, {"a": "1", "b": "2"}), what="the other key's change, and the key that one reading lacks")
        cut(client)
        wait_until(has(source, {"b": "2"}), what="its deletion after the second reading")


def test_a_server_that_does_not_tell_is_named_and_read_at_each_interval(
    source: SourceWorld, server: RedisServer
) -> None:
    client = server.start("--notify-keyspace-events", "Kl")
    with following(source, server.url, interval="50ms") as service:
        [warning] = service.status("in").details["warnings"]
        assert "CONFIG SET notify-keyspace-events lKg$" in warning or "notify-keyspace-events Klg$" in warning
        client.set("limit:a", "1")
        wait_until(has(source, {"a": "1"}), what="the row")
        client.config_set("notify-keyspace-events", "KA")
        wait_until(lambda: not service.status("in").details["warnings"], what="the end of the warning")


def test_a_user_who_may_not_subscribe_is_told_so_and_its_rows_are_read(
    source: SourceWorld, server: RedisServer
) -> None:
    client = server.start(*TELLS)
    client.acl_setuser(
        "reader", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all"], reset_channels=True
    )
    client.set("limit:a", "1")
    url = server.url.replace("redis://", "redis://reader:secret@")
    with following(source, url, interval="50ms") as service:
        [warning] = service.status("in").details["warnings"]
        assert "at each interval only" in warning and "secret" not in warning
        client.set("limit:b", "2")
        wait_until(has(source, {"a": "1", "b": "2"}), what="the rows")


def test_more_keys_than_are_kept_are_read_all(
    source: SourceWorld, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.external.redis.notifications._MOST_KEYS", 50)
    client = server.start(*TELLS)
    with following(source, server.url) as service:
        before = readings(service)
        client.mset({f"limit:{number}": "1" for number in range(2_000)})
        wait_until(has(source, {str(number): "1" for number in range(2_000)}), what="all rows")
        assert readings(service) > before

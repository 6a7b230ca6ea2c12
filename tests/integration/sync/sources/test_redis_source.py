"""Keys of a Redis become a topic."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from enrich.dev import Addresses
from enrich.service.routes import RouteState
from tests.support.sync.sources import SourceWorld, repeats
from tests.support.waiting import wait_until


@pytest.fixture
def client(servers: Addresses) -> Iterator[Any]:
    with closing(redis.Redis.from_url(str(servers.redis_url))) as found:
        yield found


def origin(source: SourceWorld, servers: Addresses, kind: str, **more: Any) -> str:
    """Returns what the keys begin with."""
    prefix = f"{source.name}:limit:"
    columns = {} if kind == "string" else {"columns": "rps int, plan string"}
    source.origin = {"redis": {"url": servers.redis_url, "pattern": f"{prefix}*", "as": kind, **columns, **more}}
    source.make_topic()
    return prefix


def put(client: Any, kind: str, key: str, rps: int) -> None:
    if kind == "hash":
        client.hset(key, mapping={"rps": rps, "plan": "pro", "other": "x"})
    else:
        client.set(key, f'{{"rps": {rps}, "plan": "pro"}}' if kind == "json" else f"text {rps}")


def expected(kind: str, rows: dict[int, int]) -> dict[bytes, bytes]:
    text = '{"value":"text %d"}' if kind == "string" else '{"rps":%d,"plan":"pro"}'
    return {str(key).encode(): (text % rps).encode() for key, rps in rows.items()}


@pytest.mark.parametrize("kind", ["hash", "json", "string"])
def test_the_topic_becomes_the_keys_and_follows_them(
    source: SourceWorld, servers: Addresses, client: Any, kind: str
) -> None:
    prefix = origin(source, servers, kind)
    rows = {number: number for number in range(700)}
    for number in rows:
        put(client, kind, f"{prefix}{number}", number)
    with source.running():
        wait_until(lambda: source.in_topic() == expected(kind, rows), what="the rows")
        put(client, kind, f"{prefix}5", 1_000)
        put(client, kind, f"{prefix}900", 9)
        client.delete(f"{prefix}6")
        client.expire(f"{prefix}7", 0)
        rows = {**rows, 5: 1_000, 900: 9}
        del rows[6], rows[7]
        wait_until(lambda: source.in_topic() == expected(kind, rows), what="the changes")
    assert source.records() == 700 + 2 + 2
    assert repeats(source.versions()) == []


def test_a_key_of_another_type_or_without_sense_deletes_nothing(
    source: SourceWorld, servers: Addresses, client: Any
) -> None:
    prefix = origin(source, servers, "hash")
    put(client, "hash", f"{prefix}1", 1)
    with source.running() as service:
        wait_until(lambda: source.in_topic() == expected("hash", {1: 1}), what="the row")
        client.lpush(f"{prefix}2", "x")
        wait_until(lambda: service.status("in").state is RouteState.waiting, what="trouble")
        assert "1 hold a list, and a hash is expected" in str(service.status("in").last_error)
        client.delete(f"{prefix}2")
        client.hset(f"{prefix}3", mapping={"rps": "many"})
        wait_until(lambda: "cannot be read" in str(service.status("in").last_error), what="the other trouble")
        client.delete(f"{prefix}3")
        put(client, "hash", f"{prefix}4", 4)
        wait_until(lambda: source.in_topic() == expected("hash", {1: 1, 4: 4}), what="the rows after it")


def test_what_write_back_calls_deleted_is_no_row(source: SourceWorld, servers: Addresses, client: Any) -> None:
    prefix = origin(source, servers, "hash")
    put(client, "hash", f"{prefix}1", 1)
    client.hset(f"{prefix}2", mapping={"_deleted": "1", "_version": "5"})
    with source.running():
        wait_until(lambda: source.in_topic() == expected("hash", {1: 1}), what="the row")

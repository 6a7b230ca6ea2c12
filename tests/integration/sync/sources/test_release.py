"""The release on what sources write, and what it is for: a roll-back writes the same versions again, and the store must
end with the rows of the good code."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from enrich.config import load_text
from enrich.dev import Addresses
from enrich.kafka.records import headers_of
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, Talk, whole
from tests.support.sync.service import Running, running
from tests.support.sync.sources import SourceWorld
from tests.support.waiting import wait_until

COLUMNS = "id bigint, plan string"


@contextmanager
def rows_of(kind: str, source: SourceWorld, servers: Addresses) -> Iterator[None]:
    """Two rows, 1 and 2, in that kind of source."""
    rows: list[dict[str, Any]] = [{"id": 1, "plan": "a"}, {"id": 2, "plan": "b"}]
    if kind in ("table", "log"):
        source.make_table("id bigint PRIMARY KEY, plan text", rows=0)
        source.execute("INSERT INTO {} VALUES (1, 'a'), (2, 'b')")
        follow = {"follow": "log"} if kind == "log" else {}
        source.origin = {"postgres": {**source.origin["postgres"], **follow}}
        yield
        if kind == "log":
            slots = "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE %s AND NOT active"
            wait_until(lambda: source.execute(slots, f"%{source.name}%").fetchall(), what="a slot that nobody uses")
            source.execute(f"SELECT pg_drop_replication_slot(slot_name) FROM ({slots}) q", f"%{source.name}%")  # noqa: S608
    elif kind == "file":
        path = Path(source.directory) / "rows.csv"
        path.write_text("id,plan\n1,a\n2,b\n")
        source.origin = {"file": {"path": str(path), "key": ["id"], "columns": COLUMNS}}
        yield
    elif kind == "redis":
        with closing(redis.Redis.from_url(servers.redis_url)) as client:
            for row in rows:
                client.hset(f"{source.name}:{row['id']}", mapping={"id": row["id"], "plan": row["plan"]})
        where = {"url": servers.redis_url, "pattern": f"{source.name}:*", "as": "hash"}
        source.origin = {"redis": {**where, "columns": COLUMNS}}
        yield
    else:

        def answer(talk: Talk) -> bool:
            talk.read()
            talk.send(whole(200, json.dumps(rows).encode()))
            return True

        with ScriptedEndpoint(answer) as endpoint:
            source.origin = {"http": {"url": endpoint.url(path="/rows"), "key": ["id"], "columns": COLUMNS}}
            yield


def releases(source: SourceWorld) -> list[bytes | None]:
    return [dict(headers_of(message)).get("enrich.release") for message in source.cluster.messages(source.topic)]


@pytest.mark.parametrize("kind", ["table", "log", "file", "redis", "http"])
@pytest.mark.parametrize("release", [0, 7])
def test_every_kind_of_source_writes_the_release_if_there_is_one(
    source: SourceWorld, servers: Addresses, kind: str, release: int
) -> None:
    source.make_topic()
    source.settings["delete_guard"] = 0.9
    with rows_of(kind, source, servers):
        with running(load_text(json.dumps({**source.data(), "release": release}), {})):
            wait_until(lambda: len(source.in_topic()) == 2, what="the rows")
            if kind in ("table", "log"):
                source.execute("DELETE FROM {} WHERE id = 1")
                wait_until(lambda: len(source.in_topic()) == 1, what="the tombstone")
        expected = None if release == 0 else b"7"
        assert releases(source) == [expected] * source.records()


@pytest.mark.parametrize("kind", ["table", "log"])
def test_a_source_whose_release_has_fallen_warns_and_runs(
    source: SourceWorld, servers: Addresses, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    source.make_topic()
    with rows_of(kind, source, servers):
        for release in (8, 7):
            with running(load_text(json.dumps({**source.data(), "release": release}), {})):
                wait_until(lambda: len(source.in_topic()) == 2, what="the rows")
                source.execute(f"UPDATE {{}} SET plan = 'of {release}' WHERE id = 1")  # noqa: S608 - a number
                said = f'"of {release}"'.encode()
                wait_until(lambda said=said: said in source.in_topic()[b"1"], what="the change")  # type: ignore[misc] # a default binds the loop's value
            warned = [each for each in caplog.messages if "has records of release 8, and this is release 7" in each]
            assert len(warned) == (release == 7)


class Deployed:
    """A source of a view, and a route that writes its rows to a store; the column `at` says their versions."""

    def __init__(self, source: SourceWorld, servers: Addresses, store: str) -> None:
        self.source = source
        self.store = store
        self.servers = servers
        self.target = f"{source.name}_out"

    def data(self, view: str, release: int) -> dict[str, Any]:
        self.source.origin = {"postgres": {"dsn": self.source.dsn, "table": view, "key": ["id"]}}
        data = self.source.data()
        postgres = {"dsn": self.source.dsn, "table": self.target, "key": ["key"], "columns": {"plan": "plan"}}
        to = (
            {"postgres": postgres}
            if self.store == "postgres"
            else {"redis": {"url": self.servers.redis_url, "key": f"{self.target}:{{key}}", "as": self.store}}
        )
        route = {"topic": self.source.topic, "format": "json", "columns": "plan string, at timestamp", "version": "at"}
        data["sync"]["writeback"] = {"out": {**route, "to": to, "retries": [], "reconcile": 0}}
        return {**data, "release": release}

    def make_table(self, release: int) -> None:
        more = ", release bigint" if release else ""
        self.source.execute(
            f"CREATE TABLE {self.target} (key text PRIMARY KEY, plan text, version bigint, deleted boolean{more})"
        )

    @contextmanager
    def running(self, view: str, release: int) -> Iterator[Running]:
        with running(load_text(json.dumps(self.data(view, release)), {})) as service:
            yield service

    def plans(self) -> dict[str, str]:
        if self.store == "postgres":
            with psycopg.connect(self.source.dsn) as connection:
                return dict(connection.execute(f"SELECT key, plan FROM {self.target} WHERE NOT deleted").fetchall())  # noqa: S608
        with closing(redis.Redis.from_url(self.servers.redis_url, decode_responses=True)) as found:
            client: Any = found
            names = list(client.scan_iter(f"{self.target}:*"))
            read = client.hgetall if self.store == "hash" else lambda name: json.loads(client.get(name))
            return {name.removeprefix(f"{self.target}:"): read(name)["plan"] for name in names}


@pytest.mark.parametrize("store", ["hash", "json", "postgres"])
@pytest.mark.parametrize("releases", [(0, 0), (7, 8)])
def test_a_roll_back_of_a_source_ends_with_the_good_rows_if_its_release_is_higher(
    source: SourceWorld, servers: Addresses, store: str, releases: tuple[int, int]
) -> None:
    source.make_topic()
    source.make_table("id bigint PRIMARY KEY, plan text, at timestamptz NOT NULL DEFAULT now()")
    source.execute("INSERT INTO {} SELECT n, 'plan ' || n FROM generate_series(1, 20) n")
    source.execute("CREATE VIEW {0}_good AS SELECT * FROM {0}")
    source.execute("CREATE VIEW {0}_bad AS SELECT id, 'bad' AS plan, at FROM {0}")
    deployed = Deployed(source, servers, store)
    if store == "postgres":
        deployed.make_table(releases[0])
    good = {str(number): f"plan {number}" for number in range(1, 21)}
    bad = dict.fromkeys(good, "bad")
    with deployed.running(f"{source.name}_bad", releases[0]):
        wait_until(lambda: deployed.plans() == bad, what="the rows of the bad release")
    with deployed.running(f"{source.name}_good", releases[1]) as service:
        wait_until(lambda: source.records() == 40, what="the records of the roll-back")
        wait_until(lambda: service.status().counters.get("records_read", 0) >= 20, what="these in the store")
    assert deployed.plans() == (bad if releases[0] == releases[1] else good)

"""A whole chain on servers of its own: ingest, two stages, expel with its retrier, two write-backs, an observer."""

import json
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import redis

from enrich.base.exits import UNREACHABLE
from tests.support.edge.expel import Endpoint
from tests.support.edge.ingesting import sent, started
from tests.support.kafka.topics import Cluster
from tests.support.observe.observing import Observer, observing
from tests.support.paged_program import PagedProgram, program
from tests.support.ports import free_port
from tests.support.processes import kill
from tests.support.servers.restarted import Servers
from tests.support.stage.world import StageWorld, running_stage
from tests.support.waiting import wait_until

EDGES = ("ingest", "expel", "retrier")
STAGES = ("prepare", "send")


class Whole:
    """What was killed is started again by `start`."""

    def __init__(self, servers: Servers, endpoint: Endpoint, folder: Path, held: ExitStack) -> None:
        addresses = servers.addresses
        self.servers = servers
        self.world = StageWorld(Cluster({"bootstrap.servers": str(addresses.bootstrap_servers)}), folder, partitions=3)
        self._held = held
        self.running: dict[str, Any] = {}
        self._configure(addresses, endpoint)
        self.file = self.world.file

    @property
    def raw(self) -> str:
        return self.world.topic("raw")

    def _configure(self, addresses: Any, endpoint: Endpoint) -> None:
        world, document = self.world, self.world.document
        world.users()
        events = {"format": "json", "schema": "id bigint, user_id string"}
        joined = {"format": "json", "schema": "id bigint, user struct<plan: string>"}
        user = {"table": "users", "key": "user_id", "as": "user", "select": ["plan"], "on_miss": "null"}
        document["stages"] = {
            "prepare": {
                "source": {"topic": self.raw, **events},
                "normalize": {"user_id": "lower(user_id)"},
                "lookups": [user],
                "sink": {"topic": world.topic("mid")},
                "profile": "realtime",
            },
            "send": {
                "source": {"topic": world.topic("mid"), **joined},
                "routes": [
                    {"name": "acme", "topic": world.topic("out")},
                    {
                        "name": "rows",
                        "when": "id % 10 = 0",
                        "select": "struct(user.plan AS plan)",
                        "key": "cast(id AS string)",
                        "topic": world.topic("rows"),
                    },
                ],
                "otherwise": "drop",
            },
        }
        entry = {"listen": "127.0.0.1:0", "path": "/v1"}
        http = {"url": endpoint.url(), "allow_private": True, "timeout": "2s"}
        back = {"topic": world.topic("rows"), "format": "json", "columns": "plan string", "reconcile": 0}
        to_redis = {"redis": {"url": addresses.redis_url, "key": "row:{key}"}}
        to_postgres = {"postgres": {"dsn": addresses.postgres_dsn, "table": "rows", "key": ["id"]}}
        with psycopg.connect(str(addresses.postgres_dsn), autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE rows (id text PRIMARY KEY, plan text, version bigint NOT NULL, deleted boolean NOT NULL)"
            )
        document |= {
            "pages": {role: f"127.0.0.1:{free_port()}" for role in EDGES},
            "ingest": {"plays": {**entry, "topic": self.raw, "format": "json", "event_time": "ts"}},
            "expel": {"acme": {"topic": world.topic("out"), "to": {"http": http}, "retries": ["2s"]}},
            "sync": {
                "listen": "127.0.0.1:0",
                "writeback": {"cache": {**back, "to": to_redis}, "table": {**back, "to": to_postgres}},
            },
            "observe": {"listen": "127.0.0.1:0", "sla": {"p95": "1m"}, "loss": {"settle": "10s", "alarm": "0%"}},
        }

    def start(self, name: str) -> None:
        if name in STAGES:
            running = running_stage(self.world, name, master="local[1]")
        elif name == "observer":
            running = observing(self.file)  # type: ignore[assignment] # whatever it is, it is a context
        elif name == "sync":
            running = program(PagedProgram, ["enrich", "sync", "run"], self.file)  # type: ignore[assignment]
        elif name == "ingest":
            running = started(self.file)  # type: ignore[assignment]
        else:
            running = program(PagedProgram, ["edge_service", name], self.file)  # type: ignore[assignment]
        self.running[name] = self._held.enter_context(running)

    def pid(self, name: str) -> int:
        return int(self.running[name].process.pid)

    def kill(self, name: str) -> None:
        kill(self.pid(name))

    def tend(self) -> None:
        """As a supervisor does: a program that could not begin without a server begins again. None may end of itself
        for another reason."""
        for name, running in [*self.running.items()]:
            process = running.process
            if process.poll() is not None:
                assert process.returncode == UNREACHABLE, (name, process.returncode, running.log.read_text()[-4_000:])
                self.start(name)

    @property
    def observer(self) -> Observer:
        found = self.running["observer"]
        assert isinstance(found, Observer)
        return found

    def alarms(self) -> list[dict[str, Any]]:
        """Those that the observer has, on and over."""
        with suppress(OSError, ValueError):
            found: list[dict[str, Any]] = self.observer.json("/api/state")["alarms"]
            return found
        return []

    def send(self, first: int, count: int) -> bool:
        """Whether all of them are acknowledged."""
        now_ms = time.time_ns() // 10**6
        users = ("ANN", "bob", "nobody")
        events = [{"id": number, "user_id": users[number % 3], "ts": now_ms} for number in range(first, first + count)]
        with suppress(OSError, ValueError, AssertionError):
            return sent(self.running["ingest"].url("plays"), json.dumps(events)).status < 300
        return False

    def rows_in_redis(self) -> set[int]:
        client = redis.Redis.from_url(str(self.servers.addresses.redis_url), decode_responses=True)
        return {int(key.partition(":")[2]) for key in client.scan_iter("row:*", count=1_000)}

    def rows_in_postgres(self) -> set[int]:
        with psycopg.connect(str(self.servers.addresses.postgres_dsn)) as connection:
            return {int(key) for (key,) in connection.execute("SELECT id FROM rows")}


def goes_on(chain: Whole, endpoint: Endpoint, more: int) -> None:
    """Until so many more events are delivered."""
    before = len(endpoint.delivered)

    def have_come() -> bool:
        chain.tend()
        return len(endpoint.delivered) >= before + more

    wait_until(have_come, what="further events")

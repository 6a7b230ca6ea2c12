"""The sync service under test: pipelines made in code, run in a thread, and stores read by clients of their own."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import redis
from confluent_kafka.cimpl import NewPartitions

from enrich.base.errors import Retryable
from enrich.config import Pipeline, load_text
from enrich.dev import Addresses
from enrich.kafka import new_admin_client, new_group_consumer
from enrich.kafka.groups import committed
from enrich.kafka.records import headers_of
from enrich.service.routes import RouteStatus
from sync_service.building import routes_of
from tests.support.beside import beside
from tests.support.edge.route_programs import RoutesProcess, RunningRoutes
from tests.support.kafka.topics import Cluster

_NUMBERS = itertools.count()

SHORT_SESSIONS = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500}
"""For `kafka.client`: how long a killed instance is taken for living would be most of the time of its tests."""

Row = tuple[int, dict[str, Any]]
"""Version and columns."""


class SyncWorld:
    """Servers, and places in them that belong to one test."""

    def __init__(self, servers: Addresses, held: ExitStack) -> None:
        assert servers.bootstrap_servers and servers.redis_url and servers.postgres_dsn
        self.name = f"w{next(_NUMBERS)}"
        self.servers = servers
        self.cluster = Cluster({"bootstrap.servers": servers.bootstrap_servers})
        self.redis: Any = held.enter_context(closing(redis.Redis.from_url(servers.redis_url, decode_responses=True)))
        self.postgres: Any = held.enter_context(psycopg.connect(servers.postgres_dsn, autocommit=True))
        self.topic = f"{self.name}.rows"
        self._held = held
        self.has_table = False
        self._is_soft = True

    def make_topic(self, partitions: int = 3) -> None:
        self.cluster.topics.create(self.topic, partitions=partitions, config={"cleanup.policy": "compact"})

    def add_partitions(self, count: int) -> None:
        """Until the topic has so many."""
        admin = new_admin_client(self.cluster.connection)
        for future in admin.create_partitions([NewPartitions(self.topic, count)]).values():
            future.result(30)

    def make_table(self, columns: str = "plan text, rps int", *, soft: bool = True, released: bool = False) -> None:
        self.has_table = True
        self._is_soft = soft
        more = "version bigint NOT NULL" + (", deleted boolean NOT NULL" if soft else "")
        more += ", release bigint" if released else ""
        self.postgres.execute(f"CREATE TABLE {self.name} (id text PRIMARY KEY, {columns}, {more})")

    def to_redis(self, url: str | None = None, **more: Any) -> dict[str, Any]:
        return {"redis": {"url": url or self.servers.redis_url, "key": f"{self.name}:{{key}}", **more}}

    def to_postgres(self, **more: Any) -> dict[str, Any]:
        return {"postgres": {"dsn": self.servers.postgres_dsn, "table": self.name, "key": ["id"], **more}}

    def data(self, to: dict[str, Any], **more: Any) -> dict[str, Any]:
        """A configuration file with one route, `out`."""
        # Without retry topics, unless a test is about them: each is a consumer group that takes its time to form.
        route = {
            "topic": self.topic,
            "format": "json",
            "columns": "plan string, rps int",
            "to": to,
            "retries": [],
            "reconcile": 0,
        }
        route |= more
        return {
            "name": self.name,
            "kafka": {"bootstrap_servers": self.servers.bootstrap_servers},
            "sync": {"listen": "127.0.0.1:0", "writeback": {"out": route}},
        }

    def data_to_both(self) -> dict[str, Any]:
        """The same with a second route, `table`: the rows go to Redis and to PostgreSQL."""
        data = self.data(self.to_redis())
        routes = data["sync"]["writeback"]
        routes["table"] = {**routes["out"], "to": self.to_postgres()}
        return data

    def pipeline(self, to: dict[str, Any], **more: Any) -> Pipeline:
        return load_text(json.dumps(self.data(to, **more)), {})

    def produce(self, *rows: tuple[str, dict[str, Any] | None]) -> None:
        """Key and columns; None is a tombstone."""
        self.cluster.produce(
            self.topic, ((key.encode(), None if row is None else json.dumps(row).encode()) for key, row in rows)
        )

    def dead_letters(self, count: int = 1) -> dict[str, dict[str, str]]:
        """By their records' places: headers, and the value under "value"; empty while they are fewer than so many."""
        if not self.cluster.topics.exists(f"{self.name}.out.dlq"):
            return {}
        try:
            messages = self.cluster.messages(f"{self.name}.out.dlq")
        except Retryable:  # made just now: its partitions have no leaders yet
            return {}
        letters = {
            "/".join(str(message.key() or b"", "utf-8").split("/")[:3]): {
                "value": str(message.value() or b"", "utf-8"),
                **{name: str(content or b"", "utf-8") for name, content in headers_of(message)},
            }
            for message in messages
        }
        return letters if len(letters) >= count else {}

    def in_redis(self) -> dict[str, dict[str, str]]:
        """All hashes but those of deleted keys."""
        keys = list(self.redis.scan_iter(f"{self.name}:*", count=1000))
        pipeline = self.redis.pipeline(transaction=False)
        for key in keys:
            pipeline.hgetall(key)
        rows = zip(keys, pipeline.execute(), strict=True)
        return {key.removeprefix(f"{self.name}:"): row for key, row in rows if "_deleted" not in row}

    def redis_of(self, client: Any) -> Any:
        """A client of the same server that reads text, for `redis`."""
        port = client.connection_pool.connection_kwargs["port"]
        return self._held.enter_context(closing(redis.Redis(port=port, decode_responses=True)))

    def committed(self, route: str = "out") -> dict[int, int]:
        """What the route's group has committed, by partition."""
        group = f"enrich.sync.{self.name}.{route}"
        numbers = list(self.cluster.topics.end_offsets(self.topic))
        with closing(new_group_consumer(self.cluster.connection, group)) as consumer:
            found = committed(consumer, group, self.topic, numbers, deadline_s=60)
        reached = {place.partition: place.offset for place in found}
        return {number: max(reached.get(number, 0), 0) for number in numbers}

    def everything(self) -> dict[str, tuple[Any, ...]]:
        """Version, plan and rps of every living row, wherever this test has them."""
        return self.rows_in_postgres() if self.has_table else self.rows_in_redis()

    def rows_in_postgres(self) -> dict[str, tuple[Any, ...]]:
        return {key: (version, plan, rps) for key, (plan, rps, version) in self.in_postgres().items()}

    def rows_in_redis(self) -> dict[str, tuple[Any, ...]]:
        names = list(self.redis.scan_iter(f"{self.name}:*", count=1000))
        pipeline = self.redis.pipeline(transaction=False)
        for name in names:
            pipeline.type(name)
        for name, kind in zip(names, pipeline.execute(), strict=True):
            (pipeline.hgetall if kind == "hash" else pipeline.get)(name)
        found = {}
        for name, answer in zip(names, pipeline.execute(), strict=True):
            row = json.loads(answer) if isinstance(answer, str) else answer
            if row and "_deleted" not in row:
                rps = None if row.get("rps") is None else int(row["rps"])
                found[name.removeprefix(f"{self.name}:")] = (int(row["_version"]), row.get("plan"), rps)
        return found

    def reconnect(self) -> None:
        """After a server was killed."""
        self.postgres = self._held.enter_context(psycopg.connect(self.servers.postgres_dsn or "", autocommit=True))

    def put_extra(self, key: str) -> None:
        """A row that no record of the topic explains."""
        if self.has_table:
            insert = f"INSERT INTO {self.name} VALUES (%s, 'extra', 1, %s, false) "  # noqa: S608 - our own name
            insert += "ON CONFLICT (id) DO UPDATE SET deleted = false"
            self.postgres.execute(insert, [key, 2**40])
        elif any(self.redis.type(name) == "string" for name in self.redis.scan_iter(f"{self.name}:k2*")):
            self.redis.set(f"{self.name}:{key}", json.dumps({"_version": 2**40, "plan": "extra", "rps": 1}))
        else:
            self.redis.delete(f"{self.name}:{key}")
            self.redis.hset(f"{self.name}:{key}", mapping={"_version": 2**40, "plan": "extra", "rps": 1})

    def in_postgres(self) -> dict[str, tuple[Any, ...]]:
        read = f"SELECT id, plan, rps, version FROM {self.name}"  # noqa: S608 - our own name
        read += " WHERE NOT deleted" if self._is_soft else ""
        return {row[0]: row[1:] for row in self.postgres.execute(read)}


class Running(RunningRoutes):
    """A service in a thread of this process."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(routes_of(pipeline))

    def status(self, route: str = "out") -> RouteStatus:
        return super().status(route)


@contextmanager
def while_doing(something: Callable[[], None]) -> Iterator[None]:
    """Does it again and again in another thread, as long as the block runs."""

    def repeat(stopping: threading.Event) -> None:
        while not stopping.wait(0.005):
            something()

    with beside(repeat):
        yield


@contextmanager
def running(pipeline: Pipeline) -> Iterator[Running]:
    service = Running(pipeline)
    try:
        yield service
    finally:
        service.stop()


class Program(RoutesProcess):
    """The service as a process, as containers run it."""

    def __init__(self, folder: Path, data: dict[str, Any]) -> None:
        def document(listen: str) -> dict[str, Any]:
            data["sync"]["listen"] = listen
            return data

        super().__init__(["sync_service"], folder, document)

    def route(self, name: str = "out") -> dict[str, Any]:
        return super().route(name)


@contextmanager
def program(world: SyncWorld, folder: Path, to: dict[str, Any], **more: Any) -> Iterator[Program]:
    started = Program(folder, world.data(to, **more))
    try:
        yield started
    finally:
        started.close()

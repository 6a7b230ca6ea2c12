"""The retrier under test: topics of a route, events that wait in them, and what came out, by ids."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from edge_service.retrier.program import routes_of
from edge_service.retrier.route import RetryRoute
from enrich.config import Pipeline, load_text
from enrich.kafka import Admin, DeliveringProducer, new_admin_client
from enrich.kafka.records import headers_of
from enrich.kafka.retries import retry_headers
from tests.support.edge.route_programs import RoutesProcess, RunningRoutes
from tests.support.kafka.topics import Cluster
from tests.support.sync.service import SHORT_SESSIONS
from tests.support.waiting import wait_until

_NUMBERS = itertools.count()


@dataclass
class RetryWorld:
    """Routes of one pipeline, each with these pauses."""

    cluster: Cluster
    pauses: tuple[str, ...] = ("1s",)
    routes: tuple[str, ...] = ("acme",)
    client: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"r{next(_NUMBERS)}")

    def retry_in(self, pause: str = "", route: str = "acme") -> str:
        return f"{self.name}.{route}.retry_in.{pause or self.pauses[0]}"

    def retry_out(self, route: str = "acme") -> str:
        return f"{self.name}.{route}.retry_out"

    def group(self, route: str = "acme") -> str:
        return f"enrich.retrier.{self.name}.{route}"

    def topics(self) -> list[str]:
        waiting = [self.retry_in(pause, route) for route in self.routes for pause in self.pauses]
        return [*waiting, *map(self.retry_out, self.routes)]

    def make_topics(self, partitions: int = 2) -> None:
        for topic in self.topics():
            self.cluster.topics.create(topic, partitions=partitions)

    def set_topic(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        (changed,) = self.admin.incremental_alter_configs([resource]).values()
        changed.result(30)

    def data(self, listen: str = "127.0.0.1:0") -> dict[str, Any]:
        http = {"http": {"url": "https://example.org/events"}}
        return {
            "name": self.name,
            "kafka": {**self.cluster_of_file(), "client": {**SHORT_SESSIONS, **self.client}},
            "expel": {r: {"topic": f"{self.name}.{r}", "to": http, "retries": [*self.pauses]} for r in self.routes},
            "pages": {"retrier": listen},
        }

    def cluster_of_file(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.cluster.connection["bootstrap.servers"]}

    def pipeline(self) -> Pipeline:
        return load_text(json.dumps(self.data()), {})

    def put(self, ids: Iterable[int], *, topic: str = "", partitions: int = 2, timestamp_ms: int | None = None) -> None:
        """Events that wait: each id is key and value, and its remainder its partition."""
        with DeliveringProducer(self.cluster.connection) as producer:
            for one in ids:
                headers = [*event_headers(one), *retry_headers((f"{self.name}.acme", one % partitions, one), one, 0)]
                producer.produce(
                    topic or self.retry_in(),
                    b"%d" % one,
                    b"%d" % one,
                    headers=headers,
                    partition=one % partitions,
                    timestamp_ms=timestamp_ms,
                )

    def came_out(self, route: str = "acme") -> Counter[int]:
        return self.cluster.ids(self.retry_out(route))

    @cached_property
    def admin(self) -> Admin:
        return new_admin_client(self.cluster.connection)

    def members(self, route: str = "acme") -> int:
        """How many instances the route's group has."""
        (future,) = self.admin.describe_consumer_groups([self.group(route)], request_timeout=10.0).values()
        return len(future.result(15.0).members)

    def wait_for(self, ids: Iterable[int], route: str = "acme", deadline_s: float = 120.0) -> None:
        """Until each of them has come out; that none came twice the caller checks."""
        wanted = set(ids)
        wait_until(lambda: wanted <= set(self.came_out(route)), deadline_s=deadline_s, what="the events")


def event_headers(one: int) -> list[tuple[str, bytes | None]]:
    return [("enrich.origin", b"raw/0/%d" % one), ("trace", b"\x00\xff"), ("trace", None)]


def content(message: Message) -> tuple[Any, ...]:
    """All that must come out as it went in."""
    return message.key(), message.value(), message.partition(), headers_of(message)


class Running(RunningRoutes):
    """The retrier in a thread of this process."""

    def __init__(self, world: RetryWorld) -> None:
        self._routes = routes_of(world.pipeline())
        super().__init__(self._routes)

    def pause(self, pause: str = "1s", route: str = "acme") -> dict[str, Any]:
        """What it shows of one topic; empty while it starts."""
        shown = self.status(route).details.get("pauses", [])
        return next((one for one in shown if one["pause"] == pause), {})

    def stop(self) -> None:
        super().stop()
        for route in self._routes:
            if isinstance(route, RetryRoute):
                route.close()


@contextmanager
def running(world: RetryWorld) -> Iterator[Running]:
    service = Running(world)
    try:
        yield service
    finally:
        service.stop()


class RetrierProcess(RoutesProcess):
    """An instance as containers run it."""

    def __init__(self, folder: Path, world: RetryWorld) -> None:
        super().__init__(["edge_service", "retrier"], folder, world.data)

    def forwarded(self) -> int:
        return self.count("forwarded")


Start = Callable[[], RetrierProcess]

"""The retrier under test: topics of a route, events that wait in them, and what came out, by ids."""

import itertools
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from edge_service.retrier.program import routes_of
from edge_service.retrier.route import RetryRoute
from enrich.base.errors import EnrichError
from enrich.config import Pipeline, load_text
from enrich.kafka import Admin, DeliveringProducer, new_admin_client
from enrich.kafka.records import headers_of
from enrich.kafka.retries import retry_headers
from enrich.service.routes import RouteStatus
from enrich.service.service import Service
from tests.support.sync import SHORT_SESSIONS, free_port
from tests.support.topics import Cluster
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


class Running:
    """The retrier in a thread of this process."""

    def __init__(self, world: RetryWorld) -> None:
        self._routes = routes_of(world.pipeline())
        self.service = Service(self._routes, held_s=0.2, most_pause_s=0.5)
        self.error: EnrichError | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.service.run()
        except EnrichError as error:
            self.error = error

    def status(self, route: str = "acme") -> RouteStatus:
        return next(status for status in self.service.statuses() if status.name == route)

    def pause(self, pause: str = "1s", route: str = "acme") -> dict[str, Any]:
        """What it shows of one topic; empty while it starts."""
        shown = self.status(route).details.get("pauses", [])
        return next((one for one in shown if one["pause"] == pause), {})

    def wait_for_state(self, state: str, route: str = "acme") -> RouteStatus:
        wait_until(lambda: self.status(route).state == state, deadline_s=60, what=f"the state {state}")
        return self.status(route)

    def stop(self) -> None:
        self.service.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()
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


class RetrierProcess:
    """An instance as containers run it."""

    def __init__(self, folder: Path, world: RetryWorld) -> None:
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.config = config = folder / "pipeline.yaml"
        config.write_text(json.dumps(world.data(f"127.0.0.1:{self.port}")))
        self._errors = (folder / "stderr").open("wb")
        command = [sys.executable, "-m", "edge_service", "retrier", "-c", str(config)]
        self.process = subprocess.Popen(command, stderr=self._errors, stdout=self._errors)

    @property
    def log(self) -> str:
        return Path(self._errors.name).read_text()

    def route(self, name: str = "acme") -> dict[str, Any]:
        """Its status; empty while nothing answers."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/status")
            routes = json.loads(connection.getresponse().read())["routes"]
        except OSError:
            return {}
        finally:
            connection.close()
        return next((route for route in routes if route["name"] == name), {})

    def forwarded(self) -> int:
        return int(self.route().get("counters", {}).get("forwarded", 0))

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        self._errors.close()


Start = Callable[[], RetrierProcess]

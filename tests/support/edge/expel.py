"""Expel under test: topics of a route, the program in a thread or a process, and what became of each event, by ids."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.cimpl import NewPartitions

from edge_service.expel.program import routes_of
from edge_service.expel.route import ExpelRoute
from enrich.base.errors import Retryable
from enrich.dev.sink.seen import parse_origins
from enrich.kafka import DeliveringProducer, new_admin_client, new_group_consumer
from enrich.kafka.groups import committed
from enrich.kafka.records import headers_of
from tests.support.edge.retries import RetryWorld
from tests.support.edge.route_programs import RoutesProcess, RunningRoutes
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, Seen, Step, Talk, whole
from tests.support.sync.service import SHORT_SESSIONS
from tests.support.waiting import wait_until

Headers = Sequence[tuple[str, bytes | None]]
LOCAL = {"tries": 3, "first": "5ms", "longest": "20ms", "budget": "10s"}
"""Short pauses: tests are about what happens, not about when."""


@dataclass
class ExpelWorld(RetryWorld):
    """A pipeline with routes to an endpoint. An event is known by its id, the number that is its value, or its `id`."""

    url: str = "http://127.0.0.1:1/hook"
    section: Mapping[str, Any] = field(default_factory=dict)
    """Of each route, laid over the defaults of these tests."""
    http: Mapping[str, Any] = field(default_factory=dict)
    """The same of `to.http`."""
    partitions: int = 2
    state_dir: str | None = None

    def topic(self, route: str = "acme") -> str:
        return f"{self.name}.{route}"

    def dlq(self, route: str = "acme") -> str:
        return f"{self.name}.{route}.dlq"

    def expel_group(self, route: str = "acme") -> str:
        return f"enrich.expel.{self.name}.{route}"

    def make(self, **config: str) -> None:
        for route in self.routes:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            self.cluster.topics.create(self.topic(route), partitions=self.partitions, config=settings)

    def add_partitions(self, count: int, topic: str = "") -> None:
        """Until the topic has so many."""
        admin = new_admin_client(self.cluster.connection)
        for future in admin.create_partitions([NewPartitions(topic or self.topic(), count)]).values():
            future.result(30)

    def data(self, listen: str = "127.0.0.1:0") -> dict[str, Any]:
        def route(name: str) -> dict[str, Any]:
            http = {"url": self.url.replace("{route}", name), "allow_private": True, "timeout": "5s", **self.http}
            own = {"topic": self.topic(name), "to": {"http": http}, "retries": [*self.pauses], "local": LOCAL}
            return {**own, **self.section}

        data = {
            "name": self.name,
            "kafka": {**self.cluster_of_file(), "client": {**SHORT_SESSIONS, **self.client}},
            "expel": {name: route(name) for name in self.routes},
            "pages": {"retrier": listen, "expel": listen},
        }
        return data if self.state_dir is None else {**data, "state_dir": self.state_dir}

    def produce(
        self,
        ids: Iterable[int],
        *,
        key: Callable[[int], bytes | None] = lambda one: b"%d" % one,
        value: Callable[[int], bytes | None] = lambda one: b"%d" % one,
        headers: Callable[[int], Headers] = lambda _: (),
        partition: Callable[[int], int] | None = None,
        topic: str = "",
        timestamp_ms: int | None = None,
    ) -> None:
        """All are acknowledged when it returns. By default an id's remainder is its partition."""
        place = partition or (lambda one: one % self.partitions)
        with DeliveringProducer(self.cluster.connection) as producer:
            for one in ids:
                producer.produce(
                    topic or self.topic(),
                    key(one),
                    value(one),
                    headers=[*headers(one)],
                    partition=place(one),
                    timestamp_ms=timestamp_ms,
                )

    def waiting(self, pause: str = "") -> Counter[int]:
        """The ids that were sent to the topic of this pause, whether they were forwarded since or not."""
        topic = self.retry_in(pause)
        return self.cluster.ids(topic) if self.cluster.topics.exists(topic) else Counter()

    def letters(self, route: str = "acme") -> "dict[tuple[int, int], Letter]":
        """By partition and offset in the route's topic."""
        if not self.cluster.topics.exists(self.dlq(route)):
            return {}
        try:
            messages = self.cluster.messages(self.dlq(route))
        except Retryable:  # made just now: its partitions have no leaders yet
            return {}
        found = {}
        for message in messages:
            if message.value() is not None:
                headers = dict(headers_of(message))
                place = int(headers["enrich.partition"] or b"-1"), int(headers["enrich.offset"] or b"-1")
                found[place] = Letter(_bytes(message.value()), headers)
        return found

    def dead(self, route: str = "acme") -> "dict[int, Letter]":
        """By id."""
        return {int(letter.value): letter for letter in self.letters(route).values()}

    def committed(self, route: str = "acme", topic: str = "") -> dict[int, int]:
        """What the route's group has committed, by partition."""
        topic = topic or self.topic(route)
        numbers = list(self.cluster.topics.end_offsets(topic))
        group = self.expel_group(route)
        with closing(new_group_consumer(self.cluster.connection, group)) as consumer:
            reached = {one.partition: one.offset for one in committed(consumer, group, topic, numbers, deadline_s=60)}
        return {number: reached.get(number, 0) for number in numbers}

    def wait_until_all_is_committed(self, route: str = "acme") -> None:
        ends = self.cluster.topics.end_offsets(self.topic(route))
        wait_until(lambda: self.committed(route) == ends, deadline_s=120, what="the commit of all events")


@dataclass(frozen=True)
class Letter:
    """A dead letter."""

    value: bytes
    headers: Mapping[str, bytes | None]

    @property
    def reason(self) -> str:
        return (self.headers["enrich.reason"] or b"").decode()


class RunningExpel(RunningRoutes):
    """The program's routes in threads of this process."""

    def __init__(self, world: ExpelWorld) -> None:
        self._routes = routes_of(world.pipeline())
        super().__init__(self._routes)

    def count(self, name: str, route: str = "acme") -> int:
        return self.status(route).counters.get(name, 0)

    def stop(self) -> None:
        super().stop()
        # What all routes share would keep its threads and sockets until the tests' process ends.
        for clients in {route.clients for route in self._routes if isinstance(route, ExpelRoute)}:
            clients.close()


@contextmanager
def expelling(world: ExpelWorld) -> Iterator[RunningExpel]:
    running = RunningExpel(world)
    try:
        yield running
    finally:
        running.stop()


class ExpelProcess(RoutesProcess):
    """An instance as containers run it."""

    def __init__(self, folder: Path, world: ExpelWorld) -> None:
        super().__init__(["edge_service", "expel"], folder, world.data)

    def count(self, name: str = "events_delivered") -> int:
        return super().count(name)

    def partitions(self) -> int:
        return int(self.route().get("gauges", {}).get("partitions", 0))


def ids_of(body: bytes) -> list[int]:
    """Of the events of a body: each line or element is a number, or has one as its `id`."""
    text = body.strip()
    values = json.loads(text) if text.startswith(b"[") else [json.loads(line) for line in text.split(b"\n") if line]
    return [int(value["id"] if isinstance(value, dict) else value) for value in values]


@dataclass
class Request:
    """One request that came whole, and what was answered."""

    seen: Seen
    ids: list[int]
    status: int


Decide = Callable[[list[int]], int | bytes | Step]
"""By the ids of a request: the status of the answer, the bytes of a whole one, or what to do instead of answering."""


class Endpoint(ScriptedEndpoint):
    """Answers each request as `decide` says, which may be replaced at any time, and keeps what came."""

    def __init__(self, decide: Decide = lambda _: 200, **more: Any) -> None:
        super().__init__(self._step, **more)
        self.decide = decide
        self.read_ids: Callable[[bytes], list[int]] = ids_of
        self.got: list[Request] = []
        """In the order in which they came whole."""

    def _step(self, talk: Talk) -> bool:
        talk.read()
        ids = self.read_ids(talk.request.body)
        said = self.decide(ids)
        if callable(said):
            self.got.append(Request(talk.request, ids, 0))
            talk.read = lambda: None  # type: ignore[method-assign] # it is read already
            return said(talk)
        data = whole(said) if isinstance(said, int) else said
        found = re.findall(rb"^HTTP/1\.[01] ([0-9]{3}) ", data, re.MULTILINE)
        self.got.append(Request(talk.request, ids, int(found[-1]) if found else 0))
        talk.send(data)
        return True

    def __enter__(self) -> "Endpoint":
        super().__enter__()
        return self

    @property
    def sent(self) -> Counter[int]:
        """How often each id came."""
        return Counter(one for request in list(self.got) for one in request.ids)

    @property
    def delivered(self) -> Counter[int]:
        """How often each id came and was answered with a 2xx."""
        return Counter(one for request in list(self.got) if 200 <= request.status <= 299 for one in request.ids)

    def wait_for(self, ids: Iterable[int], *, deadline_s: float = 120.0) -> None:
        """Until each was taken."""
        wanted = set(ids)

        def all_came() -> bool:
            return wanted <= self.delivered.keys()

        try:
            wait_until(all_came, deadline_s=deadline_s, what="the events")
        except AssertionError:
            missing = sorted(wanted - self.delivered.keys())
            raise AssertionError(f"{len(missing)} events were not delivered: {missing[:20]}") from None


def origins_in(requests: Iterable[Seen]) -> Counter[tuple[str, int, int]]:
    """How often each origin was named."""
    named = (one for seen in requests for one in parse_origins(seen.headers["enrich-origins"]))
    return Counter((*place, offset) for place, first, last in named for offset in range(first, last + 1))


def by_key(requests: Iterable[Request], key: Callable[[int], int]) -> dict[int, list[int]]:
    """The delivered ids of each key, in the order in which they came."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for request in requests:
        if 200 <= request.status <= 299:
            for one in request.ids:
                found[key(one)].append(one)
    return found


def _bytes(content: str | bytes | None) -> bytes:
    with suppress(AttributeError):
        content = content.encode()  # type: ignore[union-attr]
    assert isinstance(content, bytes)
    return content

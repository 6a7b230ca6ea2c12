"""Who asks how a route is never waits for it, and is told the truth."""

import json
import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from enrich.base.errors import Fatal
from enrich.kafka import new_group_consumer
from enrich.service.routes import RouteKind, RouteState, RouteStatus
from enrich.service.service import Service
from enrich.service.status import Program, serve_status
from sync_service.writeback import route
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


class Watched:
    """A consumer that notes which threads use it: it lets one in at a time, the others wait as long as that reads."""

    def __init__(self, *words: Any, **settings: Any) -> None:
        self._consumer = new_group_consumer(*words, **settings)
        self.users = {threading.get_ident()}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(self._consumer, name)

        def noted(*words: Any, **settings: Any) -> Any:
            self.users.add(threading.get_ident())
            return call(*words, **settings)

        return noted


def test_the_status_is_told_without_the_consumers(world: SyncWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_topic(partitions=2)
    consumers: list[Watched] = []

    def watched(*words: Any, **settings: Any) -> Watched:
        consumers.append(Watched(*words, **settings))
        return consumers[-1]

    monkeypatch.setattr(route, "new_group_consumer", watched)
    world.produce(*((f"key-{number}", {"plan": "x", "rps": number}) for number in range(100)))
    with running(world.pipeline(world.to_redis(), retries=["1s"])) as service:
        wait_until(lambda: service.status().counters.get("rows_written") == 100)
        wait_until(lambda: [service.status(name).lag for name in ("out", "out.retry-1")] == [0, 0])
    assert len(consumers) == 2
    assert [len(consumer.users) for consumer in consumers] == [1, 1]


class Breaking:
    """A route that stops for good."""

    name, kind = "broken", RouteKind.writeback

    def run(self, stopping: threading.Event) -> None:  # noqa: ARG002 - the protocol's
        raise Fatal("nothing helps")

    def status(self) -> RouteStatus:
        return RouteStatus(self.name, self.kind, RouteState.running)


def test_a_service_with_a_route_that_stopped_for_good_is_not_healthy() -> None:
    service = Service([Breaking()])
    server = serve_status(service, Program("sync", "p", "127.0.0.1:0", "sync.listen"))

    def health() -> tuple[int, Any]:
        with closing(HTTPConnection(server.address, timeout=30)) as connection:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    try:
        assert health() == (200, {"healthy": True})
        with pytest.raises(Fatal):
            service.run()
        code, told = health()
        assert code == 503
        assert told == {"healthy": False, "stopped": {"broken": "nothing helps"}}
    finally:
        server.close()

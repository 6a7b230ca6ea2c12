"""Who asks how a route is never waits for it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from enrich.kafka import new_group_consumer
from sync_service.writeback import route
from tests.support.sync import SyncWorld, running
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

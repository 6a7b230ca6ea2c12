"""Which routes are on hold, between the moment when one is held here and the one when its topic says so."""

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from enrich.delivery import holds
from enrich.delivery.holds import Hold, Holds
from tests.support.waiting import GUARD_S, wait_until


class Topic:
    """It has said that a person has resumed the route, and says so again and again."""

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        self.heard = {"acme"}
        self.polled = queue.SimpleQueue[None]()
        self.is_up = threading.Event()

    def read_to_end(self) -> None:
        """Nothing."""

    def poll(self, _: float) -> None:
        self.polled.put(None)
        time.sleep(0.001)

    def close(self) -> None:
        """Nothing."""

    def change(self, *_: Any) -> None:
        assert self.is_up.wait(GUARD_S)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Topic]:
    topic = Topic()
    monkeypatch.setattr(holds, "_Reader", lambda *_: topic)
    monkeypatch.setattr(holds, "change", topic.change)
    yield topic
    topic.is_up.set()


def test_a_hold_that_was_made_here_is_not_forgotten_before_its_topic_has_it(topic: Topic) -> None:
    """Else the next twenty requests of a route that is refused made dead letters once more."""
    with closing(Holds({}, "p")) as known:
        assert known.of("acme") is None
        known.hold("acme", "HTTP 401, 20 times in a row")
        before = topic.polled.qsize()
        wait_until(lambda: topic.polled.qsize() > before + 2, what="what the topic says, twice")
        assert known.of("acme") is not None
        topic.is_up.set()
        wait_until(lambda: known.of("acme") is None, what="what the topic says once it has it")

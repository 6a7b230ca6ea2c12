"""What becomes of a route's topics is noticed, whatever goes wrong at first."""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import pytest

from edge_service.expel import topic_watch
from edge_service.expel.topic_watch import TopicWatch
from enrich.base.errors import Retryable, Unreachable
from enrich.kafka import Topics
from tests.support.waiting import wait_until


class Brokers:
    """At first there is no client for them, as while a certificate's file is being replaced."""

    def __init__(self) -> None:
        self.tries = 0

    def __call__(self) -> Topics:
        self.tries += 1
        if self.tries == 1:
            raise Unreachable("no certificate")
        return cast("Topics", self)

    def identities(self, names: Collection[str]) -> Mapping[str, tuple[str, Sequence[int]]]:
        return dict.fromkeys(names, ("another", [0]))


def test_a_watch_without_a_client_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watch, "_LOOK_EVERY_S", 0.01)
    brokers = Brokers()
    with TopicWatch(brokers).watching({"plays": ("one", [0])}) as watched:
        wait_until(lambda: watched.failure, what="the news")
    assert isinstance(watched.failure, Retryable) and "was made again" in watched.failure.what
    assert brokers.tries == 2

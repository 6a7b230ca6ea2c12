"""What a route that empties old retry topics says of itself."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from enrich.base.errors import ConfigError, Retryable
from enrich.service.routes import RouteKind, RouteState, RouteStatus
from sync_service.writeback.old_tiers import OldTiersRoute


def test_what_brokers_refuse_for_a_moment_is_no_reason_to_stop_a_service_that_has_worked() -> None:
    """See `Service`: it stops for a ConfigError of a route that has never made progress."""

    def refused() -> None:
        raise ConfigError("the brokers refuse this user")

    route = OldTiersRoute(cast(Any, SimpleNamespace(name="cache")), cast(Any, SimpleNamespace(topics=refused)))
    assert route.status().last_progress_ms is None
    with pytest.raises(ConfigError):
        route.run(threading.Event())
    assert route.status().last_progress_ms is not None


def test_a_topic_that_is_gone_after_a_try_that_failed_is_no_trouble_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its service would not be ready, although nothing is left to be done."""
    names = ["p.out.retry.1h"]
    stopping = threading.Event()

    class Failing:
        def __init__(self, *_: object) -> None: ...

        def run(self, _: threading.Event) -> None:
            names.clear()
            raise Retryable("the topic is gone")

        def status(self) -> RouteStatus:
            return RouteStatus("out.retry-old", RouteKind.writeback)

    def listed(_: str) -> list[str]:
        if not names:
            stopping.set()
        return names

    monkeypatch.setattr("sync_service.writeback.old_tiers.WritebackRoute", Failing)
    monkeypatch.setattr(OldTiersRoute, "_waits", lambda *_: True)
    plan = SimpleNamespace(name="out", pipeline="p", retry_topics=[], old_tier=lambda topic: topic)
    route = OldTiersRoute(cast(Any, plan), cast(Any, SimpleNamespace(topics=lambda: SimpleNamespace(names=listed))))
    with pytest.raises(Retryable):
        route.run(stopping)
    route.run(stopping)
    assert route.status().state is RouteState.running

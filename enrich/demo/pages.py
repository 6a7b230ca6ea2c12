"""What the pages of expel and the retrier say of the routes to the customers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from enrich.demo.customers import CUSTOMERS
from enrich.service.asking import status_at

_EVERY_S = 0.5
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class RouteFigures:
    breaker: str | None = None
    """closed, open or probing; None while nobody says it."""
    retried: int = 0
    """Events that went to retry topics, since the demo began."""
    waiting: int | None = None
    """Events that wait in them; None while nobody says it."""

    @property
    def is_up(self) -> bool:
        return self.breaker == "closed"


class Routes:
    """Asks twice a second, by whoever calls `look`."""

    def __init__(self, pipeline: str, expel: str, retrier: str) -> None:
        """Its name, and addresses of the pages."""
        self._pipeline = pipeline
        self._expel = expel
        self._retrier = retrier
        self._figures: Mapping[str, RouteFigures] = {name: RouteFigures() for name in CUSTOMERS}
        self._before: dict[str, int] = dict.fromkeys(CUSTOMERS, 0)
        """Of processes that have ended, whose counts ended with them."""
        self._next_s = 0.0

    def figures(self) -> Mapping[str, RouteFigures]:
        return self._figures

    def look(self) -> None:
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _EVERY_S
        sends, waits = _routes_at(self._expel, self._pipeline), _routes_at(self._retrier, self._pipeline)
        self._figures = {name: self._figure(name, sends.get(name), waits.get(name)) for name in CUSTOMERS}

    def _figure(self, name: str, sends: Mapping[str, Any] | None, waits: Mapping[str, Any] | None) -> RouteFigures:
        last = self._figures[name]
        waiting = None if waits is None else waits["lag"]
        if sends is None:
            return replace(last, breaker=None, waiting=waiting)
        retried = int(sends["counters"].get("events_retried_later", 0))
        if self._before[name] + retried < last.retried:
            self._before[name] = last.retried
        return RouteFigures(sends["details"].get("breaker"), self._before[name] + retried, waiting)


def _routes_at(address: str, pipeline: str) -> Mapping[str, Mapping[str, Any]]:
    """By name. None, if the program is not there."""
    try:
        return {route["name"]: route for route in status_at(address, pipeline, _PATIENCE_S)["routes"]}
    except (OSError, ValueError):
        return {}

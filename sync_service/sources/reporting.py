"""The status of a source, set by its own thread and read by others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from enrich.service.routes import RouteKind, RouteState, RouteStatus
from stores.clock import SystemClock

_COUNTERS = ("readings", "rows_read", "rows_written", "rows_deleted", "rows_rejected", "rebuilds")


class StatusReporter:
    def __init__(self, name: str) -> None:
        self._counters = dict.fromkeys(_COUNTERS, 0)
        self.status = RouteStatus(name, RouteKind.source, counters=dict(self._counters))

    def count(self, **counts: int) -> None:
        for name, number in counts.items():
            self._counters[name] += number
        self.status = replace(self.status, counters=dict(self._counters))

    def stands_by(self) -> None:
        warning = "waits for its turn: another instance is active"
        self.status = replace(self.status, state=RouteState.standby, details={"warnings": [warning]})

    def failed(self, error: Exception, state: RouteState) -> None:
        now = SystemClock().now_ms()
        self.status = replace(
            self.status, state=state, last_error=str(error), last_error_ms=now, rows_per_s=0.0, details={}
        )

    def progressed(self, *, lag: int, rows_per_s: float = 0.0) -> None:
        now = SystemClock().now_ms()
        self.status = replace(
            self.status, state=RouteState.running, lag=lag, rows_per_s=rows_per_s, last_progress_ms=now
        )

    def describe(self, gauges: Mapping[str, float], details: Mapping[str, Any]) -> None:
        self.status = replace(self.status, gauges=dict(gauges), details=dict(details))

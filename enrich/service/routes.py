"""The interface of what a program runs: a route and its status."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from enrich.base.errors import EnrichError


class RouteKind(StrEnum):
    writeback = "writeback"
    source = "source"
    expel = "expel"
    retry = "retry"
    ingest = "ingest"


class RouteState(StrEnum):
    starting = "starting"  # its first round is not done yet
    running = "running"
    waiting = "waiting"  # for a server that is unreachable: it is tried again
    standby = "standby"  # another instance is active; this one takes over when that one ends
    paused = "paused"  # by a person, until resumed
    held = "held"  # a person has to decide; it is tried again now and then
    stopped = "stopped"  # for good


class Paused(EnrichError):
    """A person has paused the route. The service checks now and then whether it was resumed."""


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """The status of a route at one moment. Must not hold secrets or payloads: all of it is shown."""

    name: str
    kind: RouteKind
    state: RouteState = RouteState.starting
    lag: int | None = None
    """How many records or rows it has still to move; None: unknown."""
    rows_per_s: float = 0.0
    """Over the last seconds."""
    last_error: str | None = None
    last_error_ms: int | None = None
    last_progress_ms: int | None = None
    """When it last moved something, or found nothing to move (milliseconds since the epoch)."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Totals by name. Each becomes a metric: with the program's name, as in `enrich_sync_rows_written_total`."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """Values that go up and down, by name. Each becomes a metric: as in `enrich_sync_differences`."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More for `/status`: any JSON value."""
    is_ready: bool = False
    """Ready in whichever state: what it waits for is somebody else's, and no reason to stop a rollout."""
    is_of_interest: bool = True
    """If false the route is not shown: it watches for work that is rarely there."""


class Route(Protocol):
    """Moves rows one way until it is stopped. It must not rely on state that is kept between two calls of `run`."""

    @property
    def name(self) -> str:
        """Unique within the pipeline."""

    @property
    def kind(self) -> RouteKind: ...

    def run(self, stopping: threading.Event) -> None:
        """Blocks in its own thread. Returns soon after `stopping` is set: finishes and commits what it has begun, and
        begins nothing new. It may be called again after it raised.

        Raises what it cannot handle. What the service then does depends on the error. Retryable: runs the route again
        after a growing pause. Paused: waits until a person resumes it. ConfigError: stops the whole service, unless the
        route has worked before. WouldLoseData, or a ConfigError after it has worked: holds the route and tries it now
        and then, since a person has to decide. Anything else: stops this route and reports why.
        """

    def status(self) -> RouteStatus:
        """May be called by other threads at any time, also before and after `run`. Does not block."""

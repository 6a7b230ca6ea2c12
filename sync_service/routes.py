"""What write-back and sources have in common: a route, and what it tells of itself."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from enrich.base.errors import EnrichError


class RouteKind(StrEnum):
    writeback = "writeback"
    source = "source"


class RouteState(StrEnum):
    starting = "starting"  # it has not done its first round yet
    running = "running"
    waiting = "waiting"  # for a server that is away: it goes on by itself
    standby = "standby"  # another instance is at work; this one takes over when that is gone
    paused = "paused"  # by a person, until it is resumed
    held = "held"  # until a person decides; it is tried again now and then
    stopped = "stopped"  # for good


class Paused(EnrichError):
    """A person has paused the route: it is looked at now and then whether it was resumed."""


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """How a route is, at one moment. Never holds secrets or payloads: all of it is shown."""

    name: str
    kind: RouteKind
    state: RouteState = RouteState.starting
    lag: int | None = None
    """How many records or rows it knows of and has not moved yet; None: not known."""
    rows_per_s: float = 0.0
    """Over the last seconds."""
    last_error: str | None = None
    last_error_ms: int | None = None
    last_progress_ms: int | None = None
    """When it last moved something, or found that there is nothing to move (milliseconds since the epoch)."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """What only grows, by name: `rows_written`. A metric of each: `enrich_sync_rows_written_total`."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """What goes up and down, by name. A metric of each: `enrich_sync_differences`."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More for `/status`: whatever JSON can hold."""
    is_of_interest: bool = True
    """Not told to anybody otherwise: it watches for what is rarely there."""


class Route(Protocol):
    """Moves rows one way until it is told to stop. It keeps no memory between two calls of `run` that it relies on."""

    @property
    def name(self) -> str:
        """Unique among the routes of the pipeline."""

    @property
    def kind(self) -> RouteKind: ...

    def run(self, stopping: threading.Event) -> None:
        """Blocks in a thread of its own, and returns soon after `stopping` is set: what was begun is finished and
        committed, nothing is begun any more. It may be called again after it raised.

        Raises what it cannot deal with itself. The service then does what the tree of errors says: Retryable - again,
        after a pause that grows; Paused - waits until a person resumes it; ConfigError - stops the whole service,
        unless the route has worked before; WouldLoseData, and a ConfigError then - holds the route and tries it now and
        then, since a person has to decide; anything else - stops this route and tells why.
        """

    def status(self) -> RouteStatus:
        """Called by other threads at any time, also before and after `run`; returns at once."""

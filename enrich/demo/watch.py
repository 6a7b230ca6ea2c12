"""Measures what the demo's customers receive, and asks the programs how they are."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Message, TopicPartition

from enrich.base.errors import Unreachable
from enrich.demo.customers import ACME, CUSTOMERS
from enrich.demo.pages import RouteFigures, Routes
from enrich.demo.places import Places
from enrich.kafka import Connection, Topics, new_store_consumer

_WINDOW_S = 3.0
_POLL_S = 0.05
_FOUND = ("hit", "stale")
"""Statuses with a row; rows are stale while the agent restarts."""

Event = Mapping[str, Any]


@dataclass(frozen=True)
class CustomerFigures:
    """Of the last seconds, and in all."""

    per_second: float
    p95_ms: float | None
    """From the play's own time until the customer has it; None if nothing came."""
    delivered: int
    """Events, duplicates included."""
    route: RouteFigures


@dataclass(frozen=True)
class Figures:
    customers: Mapping[str, CustomerFigures]
    hit_rate: float | None
    """The share of lookups that found a row."""
    dead_letters: int

    @property
    def delivered(self) -> int:
        """Events that the customer has whom nobody disturbs."""
        return self.customers[ACME].delivered

    @property
    def p95_ms(self) -> float | None:
        return self.customers[ACME].p95_ms


@dataclass(frozen=True)
class _Seen:
    at_s: float
    lag_ms: float
    hits: int
    lookups: int


@dataclass
class _Customer:
    recent: deque[_Seen] = field(default_factory=deque)
    delivered: int = 0
    longest_ms: float = 0.0


class Watch:
    """A thread that reads what the customers write down, and the stage's dead letters."""

    def __init__(
        self, connection: Connection, topics: Topics, dead_letters: str, received: Path, routes: Routes
    ) -> None:
        self._consumer = new_store_consumer(connection)
        self._consumer.assign([TopicPartition(dead_letters, p, 0) for p in topics.partitions(dead_letters)])
        self._received = received
        self._routes = routes
        self._lock = threading.Lock()
        self._customers = {f"/{name}": _Customer() for name in CUSTOMERS}
        self._looking_for: tuple[Callable[[Event], bool], threading.Event] | None = None
        self._found: tuple[Event, float] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.dead = Places()
        """Events that became dead letters of the stage."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._consumer.close()

    def figures(self) -> Figures:
        with self._lock:
            self._forget_old()
            recent = {path: list(customer.recent) for path, customer in self._customers.items()}
            delivered = {path: customer.delivered for path, customer in self._customers.items()}
        routes = self._routes.figures()
        customers = {
            name: CustomerFigures(
                len(recent[f"/{name}"]) / _WINDOW_S, _p95(recent[f"/{name}"]), delivered[f"/{name}"], routes[name]
            )
            for name in CUSTOMERS
        }
        lookups = sum(seen.lookups for seen in recent[f"/{ACME}"])
        hits = sum(seen.hits for seen in recent[f"/{ACME}"])
        return Figures(customers, hits / lookups if lookups else None, len(self.dead))

    def look_for(self, wanted: Callable[[Event], bool]) -> None:
        """Looks for an event from now on. `found` returns the first one."""
        with self._lock:
            self._found = None
            self._looking_for = (wanted, threading.Event())

    def found(self, deadline_s: float) -> tuple[Event, float]:
        """The event, and when a customer had it, by `time.time`. Raises Unreachable if none comes."""
        if self._looking_for is None or not self._looking_for[1].wait(deadline_s) or self._found is None:
            raise Unreachable(f"the awaited event did not come within {deadline_s:g} s")
        return self._found

    def forget_longest(self) -> None:
        with self._lock:
            for customer in self._customers.values():
                customer.longest_ms = 0.0

    def longest_ms(self, name: str = ACME) -> float:
        """The largest lag since the last `forget_longest`."""
        with self._lock:
            return self._customers[f"/{name}"].longest_ms

    def _run(self) -> None:
        lines = self._lines()
        while not self._stopping.is_set():
            messages = self._consumer.consume(1_000, _POLL_S)
            self.dead.add(_origin(message) for message in messages if message.error() is None)
            with self._lock:
                for line in next(lines):
                    self._take(json.loads(line))
                self._forget_old()
            self._routes.look()

    def _lines(self) -> Iterator[Sequence[bytes]]:
        """What was added to the file since the last time, whole lines only."""
        with self._received.open("rb") as file:
            part = b""
            while True:
                *lines, part = (part + file.read()).split(b"\n")
                yield lines

    def _take(self, request: Mapping[str, Any]) -> None:
        customer = self._customers.get(request["path"])
        if customer is None or not request["taken"]:
            return
        at_s = request["received_ms"] / 1000
        for line in request["body"].splitlines():
            event = json.loads(line)
            lag_ms = (at_s - datetime.fromisoformat(event["ts"]).timestamp()) * 1000
            statuses = [each["status"] for each in event["_lineage"].values()]
            customer.recent.append(_Seen(at_s, lag_ms, sum(status in _FOUND for status in statuses), len(statuses)))
            customer.delivered += 1
            customer.longest_ms = max(customer.longest_ms, lag_ms)
            if self._looking_for is not None and self._found is None and self._looking_for[0](event):
                self._found = (event, at_s)
                self._looking_for[1].set()

    def _forget_old(self) -> None:
        oldest_s = time.time() - _WINDOW_S
        for customer in self._customers.values():
            while customer.recent and customer.recent[0].at_s < oldest_s:
                customer.recent.popleft()


def _p95(recent: Sequence[_Seen]) -> float | None:
    lags = sorted(seen.lag_ms for seen in recent)
    return lags[int(len(lags) * 0.95)] if lags else None


def _origin(letter: Message) -> str:
    headers = dict(letter.headers() or [])
    parts = (headers[f"enrich.{name}"] or b"" for name in ("topic", "partition", "offset"))
    return "/".join(part if isinstance(part, str) else part.decode() for part in parts)

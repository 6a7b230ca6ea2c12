"""Reads the stage's output like any consumer and measures it: rate, lag, hit rate."""

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from confluent_kafka import Message, TopicPartition

from enrich.base.errors import Unreachable
from enrich.kafka import Connection, Topics, new_store_consumer

_WINDOW_S = 3.0
_POLL_S = 0.02
_FOUND = ("hit", "stale")
"""Statuses with a row; rows are stale while the agent restarts."""


@dataclass(frozen=True)
class Figures:
    """Figures of the last seconds, and totals."""

    per_second: float
    p95_ms: float | None
    """From the play's own time until it is read here; None if there is no output."""
    hit_rate: float | None
    """The share of lookups that found a row."""
    enriched: int
    dead_letters: int


@dataclass(frozen=True)
class _Seen:
    at: float
    lag_ms: float
    hits: int
    lookups: int


class Watch:
    """A consumer of the output and of the dead letters, in a thread of its own."""

    def __init__(self, connection: Connection, topics: Topics, output: str, dead_letters: str) -> None:
        self._consumer = new_store_consumer(connection)
        self._consumer.assign(
            [TopicPartition(topic, p, 0) for topic in (output, dead_letters) for p in topics.partitions(topic)]
        )
        self._output = output
        self._lock = threading.Lock()
        self._recent: deque[_Seen] = deque()
        self._looking_for: tuple[Callable[[Mapping[str, Any]], bool], threading.Event] | None = None
        self._found: tuple[Mapping[str, Any], float] | None = None
        self._longest_ms = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.enriched: Counter[int] = Counter()
        """How often each play came out, by its id."""
        self.dead: Counter[int] = Counter()

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
            recent = list(self._recent)
            enriched, dead = len(self.enriched), len(self.dead)
        if not recent:
            return Figures(0.0, None, None, enriched, dead)
        lags = sorted(seen.lag_ms for seen in recent)
        hits, lookups = sum(seen.hits for seen in recent), sum(seen.lookups for seen in recent)
        return Figures(len(recent) / _WINDOW_S, lags[int(len(lags) * 0.95)], hits / lookups, enriched, dead)

    def look_for(self, wanted: Callable[[Mapping[str, Any]], bool]) -> None:
        """Looks for an event from now on. `found` returns the first one."""
        with self._lock:
            self._found = None
            self._looking_for = (wanted, threading.Event())

    def found(self, deadline_s: float) -> tuple[Mapping[str, Any], float]:
        """The event and when it was read, by `time.monotonic`. Raises Unreachable if none comes."""
        if self._looking_for is None or not self._looking_for[1].wait(deadline_s) or self._found is None:
            raise Unreachable(f"the awaited event did not come within {deadline_s:g} s")
        return self._found

    def forget_longest(self) -> None:
        with self._lock:
            self._longest_ms = 0.0

    def longest_ms(self) -> float:
        """The largest lag since the last `forget_longest`."""
        with self._lock:
            return self._longest_ms

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(1_000, _POLL_S)
            with self._lock:
                for message in messages:
                    if message.error() is None:
                        self._take(message)
                self._forget_old()

    def _take(self, message: Message) -> None:
        event = json.loads(message.value() or b"")
        if message.topic() != self._output:
            self.dead[event["id"]] += 1
            return
        self.enriched[event["id"]] += 1
        now = time.monotonic()
        lag_ms = (time.time() - datetime.fromisoformat(event["ts"]).timestamp()) * 1000
        statuses = [each["status"] for each in event["_lineage"].values()]
        self._recent.append(_Seen(now, lag_ms, sum(status in _FOUND for status in statuses), len(statuses)))
        self._longest_ms = max(self._longest_ms, lag_ms)
        if self._looking_for is not None and self._found is None and self._looking_for[0](event):
            self._found = (event, now)
            self._looking_for[1].set()

    def _forget_old(self) -> None:
        oldest = time.monotonic() - _WINDOW_S
        while self._recent and self._recent[0].at < oldest:
            self._recent.popleft()

"""How late the events of the last minute were, from the histograms of batches: no event is kept."""

import threading
import time
from collections import deque
from collections.abc import Callable

from enrich.tally.lags import NO_LAG, Lag

_WINDOW_S = 60.0
_SLOT_S = 1.0
"""Batches of so long are added up at once."""


class Recent:
    """Lags of the last minute. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._slots: deque[tuple[float, Lag]] = deque()

    def add(self, lag: Lag) -> None:
        with self._lock:
            now = self._clock()
            if self._slots and now - self._slots[-1][0] < _SLOT_S:
                began, others = self._slots.pop()
                self._slots.append((began, others + lag))
            else:
                self._slots.append((now, lag))
            self._forget()

    def lag(self) -> Lag:
        """Of the minute; empty if there was no event."""
        with self._lock:
            self._forget()
            slots = [lag for _, lag in self._slots]
        return sum(slots, start=NO_LAG)

    def _forget(self) -> None:
        oldest = self._clock() - _WINDOW_S
        while self._slots and self._slots[0][0] < oldest:
            self._slots.popleft()

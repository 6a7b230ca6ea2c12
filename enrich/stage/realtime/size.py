"""How many events a transaction of a slot has."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enrich.base.errors import Retryable

MOST = 20_000
_QUICK_S = 10.0
"""Twice as many then still end in time."""


class Size:
    """For all sessions of a slot. A transaction that did not end in time would not the next time either: then they
    become smaller."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.most = MOST

    @contextmanager
    def of(self, events: int) -> Iterator[None]:
        """Around a transaction of so many."""
        began = self._clock()
        try:
            yield
        except Retryable:
            if events:
                self.most = max(1, min(self.most, events) // 2)
            raise
        if events and self._clock() - began < _QUICK_S:
            self.most = min(MOST, 2 * self.most)

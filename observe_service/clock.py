"""The brokers' time. They stamp all that is judged; by an own clock that is fast, minutes would be over too early."""

import time
from collections.abc import Callable

_AHEAD_NS = time.time_ns() - time.monotonic_ns()


def own_ms() -> int:
    """This host's time as it was when the program began, and what has passed since. It does not step: an hour ahead,
    for a second, would make the minutes of that hour over for good before their events have come."""
    return (_AHEAD_NS + time.monotonic_ns()) // 10**6


class Clock:
    def __init__(self, own: Callable[[], int] = own_ms) -> None:
        self._own = own
        self.ahead_ms = 0
        """By how much the own clock is ahead of the brokers', and what a record takes to them."""

    def now_ms(self) -> int:
        return self._own() - self.ahead_ms

    def stamped(self, broker_ms: int) -> None:
        """A broker had just this time."""
        self.ahead_ms = self._own() - broker_ms

"""Moments on two clocks at once: the system's, which people read and may set, and a steady one that nobody can set."""

import threading
from dataclasses import dataclass, field

from stores.clock import SteadyClock
from stores.freshness import CLOCK_STEP_MS
from stores.protocol import Clock


@dataclass(frozen=True, slots=True)
class Moment:
    wall_ms: int
    steady_ms: int

    def until(self, later: "Moment") -> int:
        """The milliseconds in between, by the clock that shows more: the system's may have been set back, and the
        steady one may have stopped while its machine was suspended."""
        return max(later.wall_ms - self.wall_ms, later.steady_ms - self.steady_ms)

    def on_clock_of(self, now: "Moment") -> int:
        """What the system's clock would have shown then if it had already been set back. Never later than it showed: a
        clock that went forward may be that of a machine that was suspended."""
        set_back = (now.steady_ms - self.steady_ms) - (now.wall_ms - self.wall_ms)
        return self.wall_ms - set_back if set_back > CLOCK_STEP_MS else self.wall_ms


@dataclass(frozen=True, slots=True)
class Clocks:
    wall: Clock
    steady: Clock = field(default_factory=SteadyClock)

    def now(self) -> Moment:
        return Moment(self.wall.now_ms(), self.steady.now_ms())


class Passed:
    """How much time has passed since it was made, in milliseconds. Never goes back. Any thread may ask."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._lock = threading.Lock()
        self._last = clocks.now()
        self._passed_ms = 0

    def ms(self) -> int:
        with self._lock:
            now = self._clocks.now()
            self._passed_ms += max(0, self._last.until(now))
            self._last = now
            return self._passed_ms

    def seconds(self) -> float:
        return self.ms() / 1000

"""A circuit breaker: an endpoint that fails again and again is left alone, and tried with one request at a time."""

from collections.abc import Mapping
from enum import StrEnum

from enrich.base.backoff import Backoff
from enrich.base.machine import Machine


class State(StrEnum):
    CLOSED = "closed"
    """Requests go through."""
    OPEN = "open"
    """None goes through until the pause is over."""
    PROBING = "probing"
    """One goes through, and decides."""


class _Happening(StrEnum):
    FAILS = "it failed too often in a row"
    PAUSE_OVER = "the pause is over"
    ANSWERED = "a request was answered"


_PROBE_S = 0.05
"""How soon to ask again while a probe is under way."""

_NEXT: Mapping[tuple[State, _Happening], State] = {
    (State.CLOSED, _Happening.FAILS): State.OPEN,
    (State.OPEN, _Happening.PAUSE_OVER): State.PROBING,
    (State.PROBING, _Happening.FAILS): State.OPEN,
    (State.PROBING, _Happening.ANSWERED): State.CLOSED,
}


class Breaker:
    """Of one destination. Times are on a steady clock, in seconds. For one thread."""

    def __init__(self, failures: int, backoff: Backoff) -> None:
        """`failures`: in a row, until it opens. `backoff`: how long it stays open, each time it does."""
        self._machine = Machine(_NEXT, State.CLOSED)
        self._most = failures
        self._backoff = backoff
        self._failed = 0
        self._opens_until = 0.0
        self._is_probed = False

    @property
    def state(self) -> State:
        return self._machine.state

    def wait_s(self, now: float) -> float:
        """0 if a request may be sent now. Whoever sends one calls `sent`, and `succeeded` or `failed` at its end."""
        match self.state:
            case State.CLOSED:
                return 0.0
            case State.OPEN:
                return max(0.0, self._opens_until - now)
            case State.PROBING:
                return _PROBE_S if self._is_probed else 0.0

    def sent(self, now: float) -> None:
        if self.state is State.OPEN and now >= self._opens_until:
            self._machine.happens(_Happening.PAUSE_OVER)
        if self.state is State.PROBING:
            self._is_probed = True

    def succeeded(self) -> None:
        """It answered, whatever it thinks of the request: it is there."""
        self._failed = 0
        if self.state is State.PROBING:
            self._is_probed = False
            self._machine.happens(_Happening.ANSWERED)
            self._backoff.reset()

    def failed(self, now: float) -> None:
        """No answer, or one that says that it cannot work now."""
        self._failed += 1
        if self.state is State.PROBING or (self.state is State.CLOSED and self._failed >= self._most):
            self._is_probed = False
            self._machine.happens(_Happening.FAILS)
            self._opens_until = now + self._backoff.next_s()

"""How much a tenant may send: a second's worth at once, then as fast as its rate."""

import math

_NEVER_S = 60.0
"""When a tenant that may send nothing is asked to come again."""


class Bucket:
    """What is left of one allowance. It is full at the start, and refills with its rate.

    A request is let in while anything is left, and may take more than that: the debt is waited for. Thus one that is
    larger than a second's worth is not refused for ever.
    """

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left = math.inf
        self._at = 0.0

    def wait_s(self, rate: float, now: float) -> float:
        """How long until it lets a request in; 0: now."""
        if rate <= 0:
            return _NEVER_S
        self._refill(rate, now)
        return 0.0 if self._left > 0 else -self._left / rate

    def take(self, count: float, rate: float, now: float) -> None:
        self._refill(rate, now)
        self._left -= count

    def _refill(self, rate: float, now: float) -> None:
        self._left = min(max(rate, 1.0), self._left + max(0.0, now - self._at) * rate)
        self._at = now

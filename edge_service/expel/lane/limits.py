"""How many requests an endpoint gets at once, and how many a second."""

_SHRINK = 0.7
_SLOW = 2.0
_SLOW_BY_S = 0.05
"""Answers that take so many times the best known, and so much longer, are a sign of a queue at the other end."""
_SMOOTHING = 0.2
_MEASURE_EVERY_S = 60.0
"""How often the best answer is measured anew, with fewer requests at once, where answers are slow beside it: endpoints
become slower for good, too."""


class Concurrency:
    """Adapts the number of requests under way: twice as many each round until the first trouble, then one more for each
    full round of good answers, and a third less on trouble.

    So a slow endpoint is not drowned, and a quick one gets all that is allowed. For one thread.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(min(most, 4))
        self._best_s: float | None = None
        self._usual_s = 0.0
        """How long answers take lately."""
        self._had_trouble = False
        self._was_slow = False
        """Since the best answer was measured."""
        self._shrunk_at = 0.0
        self._measured_at = 0.0
        self.under_way = 0

    @property
    def limit(self) -> int:
        return max(1, int(self._limit))

    @property
    def has_room(self) -> bool:
        return self.under_way < self.limit

    def begin(self) -> None:
        self.under_way += 1

    def end(self, took_s: float, now: float, *, is_good: bool) -> None:
        """`is_good`: it was answered, and does not say that there were too many."""
        was_full = self.under_way == self.limit  # with more, those from before it was lowered are still under way
        self.under_way -= 1
        if not is_good:
            self._shrink(took_s, now)
            return
        best = max(0.001, took_s if self._best_s is None else min(self._best_s, took_s))
        self._best_s = best
        self._usual_s += _SMOOTHING * (took_s - self._usual_s)
        is_slow = self._usual_s > max(_SLOW * best, best + _SLOW_BY_S)
        if not is_slow and not self._was_slow:
            self._measured_at = now
        elif now - self._measured_at >= _MEASURE_EVERY_S:
            self._measured_at, self._best_s, self._was_slow = now, None, False
            self._limit = max(1.0, self._limit / 4)
            return
        self._was_slow |= is_slow
        if is_slow and self._limit > 4:
            self._shrink(took_s, now)
        elif was_full:  # a limit that is not reached says nothing about a higher one
            self._limit = min(self._most, self._limit + (1 / self._limit if self._had_trouble else 1))

    def _shrink(self, took_s: float, now: float) -> None:
        self._had_trouble = True
        # Once for all requests that were under way together: they met the same trouble.
        if now - took_s >= self._shrunk_at:
            self._limit = max(1.0, self._limit * _SHRINK)
            self._shrunk_at = now


class Rate:
    """A token bucket: so many requests a second, with a tenth of a second's worth at once."""

    def __init__(self, per_s: float | None) -> None:
        """None: no limit."""
        self._per_s = per_s
        self._burst = max(1.0, (per_s or 0) / 10)
        self._tokens = self._burst
        self._at: float | None = None

    def wait_s(self, now: float) -> float:
        """0 if a request may be sent now: whoever sends it calls `sent`."""
        if self._per_s is None:
            return 0.0
        self._fill(now, self._per_s)
        return max(0.0, (1 - self._tokens) / self._per_s)

    def sent(self, now: float) -> None:
        if self._per_s is not None:
            self._fill(now, self._per_s)
            self._tokens -= 1

    def _fill(self, now: float, per_s: float) -> None:
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._tokens = min(self._burst, self._tokens + passed * per_s)

"""Counters of a route, for its status: totals since it was created, and a rate over the last seconds."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

_WINDOW_S = 10.0


class Meter:
    """Totals by name; `rated` names the one whose rate is kept. Written by the route's thread, read by others.

    Each is there from the start: of one that comes with its first count, Prometheus would not see that it rose.
    """

    def __init__(self, rated: str, others: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rated = rated
        self._clock = clock
        self._totals = dict.fromkeys((rated, *others), 0)
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])

    def count(self, name: str, number: int = 1) -> None:
        self._totals[name] += number
        if name != self._rated:
            return
        now = self._clock()
        if now - self._samples[-1][0] >= _WINDOW_S / 20:
            self._samples.append((now, self._totals[name]))
        while len(self._samples) > 1 and now - self._samples[1][0] > _WINDOW_S:
            self._samples.popleft()

    def totals(self) -> Mapping[str, int]:
        return dict(self._totals)

    def per_second(self) -> float:
        """The rate of the rated total over the last ten seconds."""
        now = self._clock()
        recent = [sample for sample in list(self._samples) if now - sample[0] <= _WINDOW_S]
        since, before = recent[0] if recent else (now, self._totals[self._rated])
        return (self._totals[self._rated] - before) / max(now - since, 1.0)

"""Quantiles over the last minute, computed from the quantiles of each batch: no event is kept."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

_WINDOW_S = 60.0
_POINTS = (np.arange(50) + 0.5) / 50
"""A batch is represented by 50 values, each weighted with the batch's number of events."""

Values = npt.NDArray[np.float64]


class Recent:
    """Values of the events of the last minute. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._batches: deque[tuple[float, Values, float, int]] = deque()

    def add(self, quantiles: Sequence[float], values: Sequence[float], events: int) -> None:
        """Adds a batch whose values have these quantiles. Both sequences are ascending."""
        with self._lock:
            points = np.interp(_POINTS, quantiles, values)
            self._batches.append((self._clock(), points, float(values[-1]), events))
            self._forget()

    def quantiles(self, wanted: Sequence[float]) -> Mapping[float, float]:
        """Empty if there was no event."""
        with self._lock:
            self._forget()
            batches = list(self._batches)
        if not batches:
            return {}
        values = np.concatenate([points for _, points, _, _ in batches])
        weights = np.repeat([events for _, _, _, events in batches], len(_POINTS))
        order = np.argsort(values)
        reached = np.cumsum(weights[order])
        places = np.searchsorted(reached, np.asarray(wanted) * reached[-1])
        found = values[order][np.minimum(places, len(values) - 1)]
        # The largest is known exactly.
        largest = max(most for _, _, most, _ in batches)
        return {q: largest if q == 1 else float(value) for q, value in zip(wanted, found, strict=True)}

    def _forget(self) -> None:
        oldest = self._clock() - _WINDOW_S
        while self._batches and self._batches[0][0] < oldest:
            self._batches.popleft()

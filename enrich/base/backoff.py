"""Pauses between tries: they double up to a most, with jitter, so that many instances do not come back at once."""

import random
from collections.abc import Callable

from stores import backoff


class Backoff:
    """`next_s()` is the pause before the next try; `reset()` after a success."""

    def __init__(
        self, first_s: float = 0.1, most_s: float = 10.0, random_source: Callable[[], float] = random.random
    ) -> None:
        self._pauses = backoff.Backoff(min(first_s, most_s), most_s)
        self._random_source = random_source
        self._tries = 0

    @property
    def tries(self) -> int:
        """Since the last success."""
        return self._tries

    def next_s(self) -> float:
        """Between half and the whole of the doubled pause."""
        self._tries += 1
        return self._pauses.delay_s(self._tries, 1 - self._random_source())

    def reset(self) -> None:
        self._tries = 0

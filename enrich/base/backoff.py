"""Pauses between tries: exponential up to a maximum, with jitter, so that many instances do not retry at once."""

import random
from collections.abc import Callable

from stores import backoff


class Backoff:
    """`next_s()` is the pause before the next try; call `reset()` after a success."""

    def __init__(
        self, first_s: float = 0.1, most_s: float = 10.0, random_source: Callable[[], float] = random.random
    ) -> None:
        self._pauses = backoff.Backoff(min(first_s, most_s), most_s)
        self._random_source = random_source
        self._tries = 0

    @property
    def tries(self) -> int:
        """Number of tries since the last success."""
        return self._tries

    def next_s(self) -> float:
        """The next pause: a random value between half of the doubled pause and all of it."""
        self._tries += 1
        return self._pauses.delay_s(self._tries, 1 - self._random_source())

    def reset(self) -> None:
        self._tries = 0

"""Counts for the log of what happens in many small steps: a line for each of them would fill the disk."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

_EVERY_S = 60.0

Name = TypeVar("Name", bound=Hashable)


class Summed(Generic[Name]):
    """What comes after a quiet minute is to be told at once, what follows once a minute. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sums: Counter[Name] = Counter()
        self._next_s = float("-inf")

    def add(self, counts: Mapping[Name, int]) -> Mapping[Name, int]:
        """Returns what is `due` now."""
        self._sums.update({name: count for name, count in counts.items() if count})
        return self.due()

    def due(self) -> Mapping[Name, int]:
        """What is to be told now, which is forgotten; mostly nothing."""
        now_s = self._clock()
        if not self._sums or now_s < self._next_s:
            return {}
        told, self._sums = self._sums, Counter()
        self._next_s = now_s + _EVERY_S
        return told

    def rest(self) -> Mapping[Name, int]:
        """What was not told yet. To be told when nothing more comes."""
        told, self._sums = self._sums, Counter()
        return told

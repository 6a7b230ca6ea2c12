"""Which segments of a table to merge next: few enough to ask, seldom enough that merging costs little.

Deltas of about one size become one of the next size, so that a row is written a few times on its way, once a tier. Only
neighbours are merged: the newest segment that has a key must stay the one that knows its latest version.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tiers:
    fan_in: int = 4
    """So many neighbours of one size become one."""
    smallest: int = 1_000
    """Versions up to which all deltas count as one size."""
    base_share: float = 0.2
    """All deltas go into the base once they have this share of its versions."""
    base_at_least: int = 50_000
    """But not before they have so many."""

    def due(self, versions: Sequence[int]) -> slice | None:
        """The neighbours to merge now, given how many versions each segment has, the base first."""
        deltas = versions[1:]
        if not deltas:
            return None
        total = sum(deltas)
        if total >= self.base_at_least and total >= self.base_share * versions[0]:
            return slice(0, len(versions))
        sizes = [self._tier(count) for count in deltas]
        for tier in sorted(set(sizes)):
            run = 0
            while run < len(sizes) and sizes[-1 - run] <= tier:
                run += 1
            # Of this very size: a large one must not be written again whenever a few small ones have come.
            if sizes[len(sizes) - run :].count(tier) >= self.fan_in:
                return slice(len(versions) - run, len(versions))
        return None

    def _tier(self, count: int) -> int:
        tier, size = 0, self.smallest
        while count > size:
            tier, size = tier + 1, size * max(self.fan_in, 2)
        return tier

"""Which segments of a table to merge next (tiered compaction): look-ups need few segments, merging must cost little.

Deltas of about one size become one of the next size, so that a row is rewritten only a few times, once per tier. Only
neighbours are merged: the newest segment with a key must be the one with its latest version.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tiers:
    fan_in: int = 4
    """So many neighbours of one size become one."""
    smallest: int = 1_000
    """All deltas of up to so many versions count as one size."""
    base_share: float = 0.2
    """All deltas are merged into the base once they have this share of its versions."""
    base_at_least: int = 50_000
    """But not before they have so many versions."""

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
            # Count only this tier: a large delta must not be rewritten whenever a few small ones were added.
            if sizes[len(sizes) - run :].count(tier) >= self.fan_in:
                return slice(len(versions) - run, len(versions))
        return None

    def _tier(self, count: int) -> int:
        tier, size = 0, self.smallest
        while count > size:
            tier, size = tier + 1, size * max(self.fan_in, 2)
        return tier

"""complete_through: up to which moment a table is known to be complete, proven by asking the brokers where it ends.

The clock is read when the request is *sent*: whatever was committed before is below the answer. Once everything
below the answer is published, the table is complete through that moment.
"""

from dataclasses import dataclass

from stores.table import Offsets


@dataclass(frozen=True)
class Ends:
    """Where a topic ended (its last stable offsets) for a request sent at a moment."""

    asked_at_ms: int
    offsets: Offsets

    def are_reached_by(self, positions: Offsets) -> bool:
        return all(positions.get(partition, 0) >= end for partition, end in self.offsets.items())


class Completeness:
    """Of one table. The oldest answer not yet reached is kept beside the newest: were it replaced each time, a table
    that is always a little behind would never be complete through anything."""

    def __init__(self, through: int | None = None) -> None:
        self._pending: Ends | None = None
        self._newest: Ends | None = None
        self._through = through

    @property
    def complete_through(self) -> int | None:
        return self._through

    def asked(self, ends: Ends) -> None:
        """An answer of the brokers has come."""
        if self._pending is None:
            self._pending = ends
        else:
            self._newest = ends

    def published(self, positions: Offsets) -> int | None:
        """Everything below these positions is visible. Returns complete_through, which never goes back."""
        while self._pending is not None and self._pending.are_reached_by(positions):
            self._through = max(self._through or 0, self._pending.asked_at_ms)
            self._pending, self._newest = self._newest, None
        return self._through

    def behind(self, positions: Offsets) -> int:
        """How many offsets are known to be missing (gaps counted in), for progress and messages."""
        ends = self._newest or self._pending
        return 0 if ends is None else sum(max(0, end - positions.get(p, 0)) for p, end in ends.offsets.items())

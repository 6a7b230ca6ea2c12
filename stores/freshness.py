"""A view whose answers are marked `stale` if they are older than the table's freshness bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from stores.keys import milliseconds
from stores.protocol import Clock, TableView
from stores.table import Found, HistoryFloor, Offsets, Status

CLOCK_STEP_MS = 1_000
"""A larger jump means that the clock was set, not corrected gradually."""


def is_older(through: int | None, bound_ms: int, now_ms: int) -> bool:
    """Whether rows that are complete through this moment may be older than the bound. A moment in the future is from
    before the clock was set back, so nobody knows how long ago it was."""
    return through is None or not -CLOCK_STEP_MS <= now_ms - through <= bound_ms


@dataclass(frozen=True)
class ViewWrapper:
    """A view in front of another one, whose answers it changes: what is the same in all such views."""

    view: TableView

    @property
    def columns(self) -> pa.Schema:
        return self.view.columns

    @property
    def positions(self) -> Offsets:
        return self.view.positions

    @property
    def floors(self) -> Mapping[int, HistoryFloor]:
        return self.view.floors

    @property
    def complete_through(self) -> int | None:
        return self.view.complete_through


CLOCKS_DIFFER_MS = 1_000
"""How far the clocks of a topic's producers and of its readers may differ. An as-of answer is final once the table is
complete so long after that time."""

_MAY_CHANGE = pa.array([Status.HIT, Status.MISS, Status.DELETED], pa.int8())


@dataclass(frozen=True)
class MarkStale(ViewWrapper):
    """Wraps a view: answers are `stale` once the view's complete_through is further back than the bound.

    This concerns all answers that newer records of the topic could change. The row is still served; a miss is marked
    too, since it is not certain. As-of answers are stale only if the table is not known to be complete up to that time:
    the past does not age, nor do answers with a pin.
    """

    bound_ms: int
    clock: Clock

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        found = self.view.lookup(keys, columns, as_of=as_of, pin=pin)
        if pin is not None or not self._is_stale():
            return found
        old = pc.is_in(found.status, _MAY_CHANGE)
        through = self.complete_through
        if as_of is not None and through is not None:
            old = pc.and_(old, pc.fill_null(pc.greater(milliseconds(as_of), through - CLOCKS_DIFFER_MS), False))
        return replace(found, status=pc.if_else(old, pa.scalar(Status.STALE, pa.int8()), found.status))

    def _is_stale(self) -> bool:
        return is_older(self.complete_through, self.bound_ms, self.clock.now_ms())

"""A view whose answers say when they are older than the table's freshness bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from stores.protocol import Clock, TableView
from stores.table import Found, HistoryFloor, Offsets, Status

CLOCK_STEP_MS = 1_000
"""By more than this a clock is not corrected little by little, but set."""


def is_older(through: int | None, bound_ms: int, now_ms: int) -> bool:
    """Whether what is complete through this moment may be older than the bound. A moment still to come is of a clock
    that was set back since, so nobody knows how long ago it was."""
    return through is None or not -CLOCK_STEP_MS <= now_ms - through <= bound_ms


@dataclass(frozen=True)
class ViewWrapper:
    """A view in front of another: answers as that one does, but for what a subclass changes."""

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

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        return self.view.lookup(keys, columns, as_of=as_of, pin=pin)


@dataclass(frozen=True)
class MarkStale(ViewWrapper):
    """Wraps a view: a hit is `stale` once the view's complete_through lies further back than the bound.

    Only hits change: a row is still served and marked. A miss stays a miss, so that its policy decides what becomes
    of the event. With a pin or an as-of time the answer does not age, so it is not marked.
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
        found = super().lookup(keys, columns, as_of=as_of, pin=pin)
        if as_of is not None or pin is not None or not self._is_stale():
            return found
        stale = pa.scalar(Status.STALE, pa.int8())
        return replace(found, status=pc.if_else(pc.equal(found.status, Status.HIT), stale, found.status))

    def _is_stale(self) -> bool:
        return is_older(self.complete_through, self.bound_ms, self.clock.now_ms())

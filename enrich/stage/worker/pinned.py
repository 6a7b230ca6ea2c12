"""A worker's tables under a batch's pin: the same answers now and when the batch is repeated, or an error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import WouldLoseData
from enrich.stage.task.freshness import FreshnessRule
from enrich.stage.task.pin import Pin, expired_pin
from stores.answers import is_expired
from stores.freshness import ViewWrapper
from stores.keys import milliseconds
from stores.protocol import TableView
from stores.table import Found, Offsets, Status


@dataclass(frozen=True)
class Pinned(ViewWrapper):
    """A view as of a pin. Times before `oldest_ms` are expired, now and later, even if the host still has versions."""

    name: str
    pin: Offsets
    oldest_ms: int

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,  # noqa: ARG002 - the view's own pin is used
    ) -> Found:
        found = self.view.lookup(keys, columns, as_of=as_of, pin=self.pin)
        if as_of is None:
            return found
        is_expired_here = pc.equal(found.status, Status.EXPIRED)
        too_old = pc.fill_null(pc.less(milliseconds(as_of), self.oldest_ms), False)
        missing = pc.and_not(is_expired_here, too_old)
        if pc.any(missing).as_py():
            raise self._no_history(pc.min(milliseconds(as_of).filter(missing)).as_py())
        has_key = pc.invert(pc.is_in(found.status, pa.array([Status.NULL_KEY, Status.BAD_KEY], pa.int8())))
        return _expired_where(found, pc.and_(too_old, has_key))

    def _no_history(self, time_ms: int) -> WouldLoseData:
        asked, begins = (
            datetime.fromtimestamp(each / 1000, UTC).isoformat(timespec="seconds")
            for each in (time_ms, max((floor.timestamp for floor in self.floors.values()), default=0))
        )
        return WouldLoseData(
            f"an event asks for the rows of {asked}, and this host's history begins at {begins}: "
            "a repeat could get another answer",
            where=f"table {self.name}",
            next_step="wait until the history is long enough, or give the topic the min.compaction.lag.ms of "
            "`enrich topics plan`, so that it is whole from the start",
        )


def pinned(view: TableView, rule: FreshnessRule, pin: Pin) -> Pinned:
    """Raises WouldLoseData if the view's history no longer reaches back to the pin."""
    offsets = pin.tables[rule.name].offsets
    if is_expired(view.floors, None, offsets):
        raise expired_pin(rule.name, "the host's history begins after it")
    # Half of the history is kept for repeats: what a first attempt sees must still be there for them.
    return Pinned(view, rule.name, offsets, pin.time_ms - rule.history_ms // 2)


def behind(view: TableView, offsets: Offsets) -> int:
    """How many offsets of the pin a view has not reached yet."""
    positions = view.positions
    return sum(max(0, offset - positions.get(partition, 0)) for partition, offset in offsets.items())


def _expired_where(found: Found, is_old: pa.BooleanArray) -> Found:
    def without(column: pa.Array) -> pa.Array:
        return pc.if_else(is_old, pa.scalar(None, column.type), column)

    return replace(
        found,
        values=without(found.values),
        status=pc.if_else(is_old, pa.scalar(Status.EXPIRED, pa.int8()), found.status),
        partition=without(found.partition),
        offset=without(found.offset),
        timestamp=without(found.timestamp),
    )

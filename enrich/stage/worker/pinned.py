"""A worker's tables under a batch's pin: the same answers now and when the batch is repeated, or an error."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import WouldLoseData
from enrich.stage.task.freshness import FreshnessRule
from enrich.stage.task.pin import Pin, expired_pin, oldest_seen
from stores.answers import is_expired
from stores.freshness import ViewWrapper
from stores.keys import milliseconds
from stores.protocol import TableView
from stores.table import Found, Offsets, Status


@dataclass(frozen=True)
class Pinned(ViewWrapper):
    """A view as of a pin. Times before `oldest_ms` are expired, now and later, even if the host still has versions.

    Keys that were deleted before it are a miss, even if the host still has the tombstone: the topic may have forgotten
    it, and then a host that loads the table for a repeat does not have it. Deleted networks are always a miss: behind
    one that the topic has forgotten there may be a shorter one that was deleted later.
    """

    name: str
    pin: Offsets
    oldest_ms: int
    has_networks: bool = False

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,  # noqa: ARG002 - the view's own pin is used
    ) -> Found:
        found = self.view.lookup(keys, columns, as_of=as_of, pin=self.pin)
        forgotten = pc.equal(found.status, Status.DELETED)
        if not self.has_networks:
            is_old = pc.less(found.timestamp.cast(pa.int64()), self.oldest_ms)
            forgotten = pc.and_(forgotten, pc.fill_null(is_old, False))
        found = _instead(found, forgotten, Status.MISS)
        if as_of is None:
            return found
        is_expired_here = pc.equal(found.status, Status.EXPIRED)
        too_old = pc.fill_null(pc.less(milliseconds(as_of), self.oldest_ms), False)
        missing = pc.and_not(is_expired_here, too_old)
        if pc.any(missing).as_py():
            raise self._no_history(pc.min(milliseconds(as_of).filter(missing)).as_py())
        has_key = pc.invert(pc.is_in(found.status, pa.array([Status.NULL_KEY, Status.BAD_KEY], pa.int8())))
        return _instead(found, pc.and_(too_old, has_key), Status.EXPIRED)

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
            "`enrich topics plan`, so that it is whole from the start; if the table's `history` was made shorter, "
            "accept other answers for this one batch: enrich run STAGE --new-pin",
        )


def pinned(view: TableView, rule: FreshnessRule, pin: Pin) -> Pinned:
    """Raises WouldLoseData if the view's history no longer reaches back to the pin."""
    table = pin.tables[rule.name]
    if is_expired(view.floors, None, table.offsets):
        raise expired_pin(rule.name, "the host's history begins after it")
    oldest_ms = oldest_seen(pin.time_ms, rule) if table.oldest_ms is None else table.oldest_ms
    return Pinned(view, rule.name, table.offsets, oldest_ms, rule.has_networks)


def behind(view: TableView, offsets: Offsets) -> int:
    """How many offsets of the pin a view has not reached yet."""
    positions = view.positions
    return sum(max(0, offset - positions.get(partition, 0)) for partition, offset in offsets.items())


def _instead(found: Found, which: pa.BooleanArray, status: Status) -> Found:
    """With this status, and without a version, where `which` is true."""
    if not pc.any(which).as_py():
        return found

    def without(column: pa.Array) -> pa.Array:
        return pc.if_else(which, pa.scalar(None, column.type), column)

    return replace(
        found,
        values=without(found.values),
        status=pc.if_else(which, pa.scalar(status, pa.int8()), found.status),
        partition=without(found.partition),
        offset=without(found.offset),
        timestamp=without(found.timestamp),
    )

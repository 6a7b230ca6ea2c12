"""complete_through: up to which moment a table is known to be complete, proven by asking the brokers where it ends.

The clock is read when the request is *sent*: whatever was committed before is below the answer. Once everything
below the answer is published, the table is complete through that moment - if that did not take so long that the topic's
cleaner may have removed what stood there before it was read. An answer that is reached later proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from enrich.host.claims.moments import Moment
from stores.table import Offsets


@dataclass(frozen=True)
class Ends:
    """Where a topic ended (its last stable offsets) for a request sent at a moment."""

    asked: Moment
    offsets: Offsets


@dataclass(slots=True)
class _Partition:
    """The oldest answer not yet reached is kept beside the newest: were it replaced each time, a table that is always a
    little behind would never be complete through anything."""

    reached: Moment | None
    pending: tuple[Moment, int] | None = None
    newest: tuple[Moment, int] | None = None


class Completeness:
    """Of one table."""

    def __init__(self, since: Moment | None = None) -> None:
        """`since`: up to when the rows are complete that a former agent left; None: nobody knows."""
        self._since = since
        self._through: Moment | None = None
        self._partitions: dict[int, _Partition] = {}
        self._waiting: set[int] = set()
        """The partitions that have not reached an answer yet."""

    @classmethod
    def of(cls, ends: Ends) -> "Completeness":
        """Of a table that was just loaded up to these ends."""
        loaded = cls(ends.asked)
        loaded._partitions = {partition: _Partition(ends.asked) for partition in ends.offsets}
        loaded._through = ends.asked
        return loaded

    @property
    def complete_through(self) -> Moment | None:
        """None until each partition has reached an end that was asked for since this agent started. It goes back on no
        clock that only goes on, but does with a system's clock that is set back: see `Moment.on_clock_of`."""
        return self._through

    @property
    def since(self) -> Moment | None:
        """The same, or what a former agent has proven."""
        return self._through or self._since

    def proven(self, partition: int) -> Moment | None:
        """Up to when it is proven that no record of the partition is missing."""
        known = self._partitions.get(partition)
        return self.since if known is None or known.reached is None else known.reached

    def asked(self, ends: Ends) -> None:
        """An answer of the brokers has come."""
        for partition, end in ends.offsets.items():
            # Of a partition that was added since there is no record from before.
            known = self._partitions.setdefault(partition, _Partition(self._through))
            if known.pending is None:
                known.pending = ends.asked, end
                self._waiting.add(partition)
            else:
                known.newest = ends.asked, end

    def published(self, positions: Offsets, now: Moment, within_ms: int) -> Moment | None:
        """Everything below these positions is visible now. An answer counts when it was reached within this time.
        Returns complete_through."""
        reached = [p for p in self._waiting if self._reach(self._partitions[p], positions.get(p, 0), now, within_ms)]
        self._waiting.difference_update(p for p in reached if self._partitions[p].pending is None)
        if reached:
            moments = [partition.reached for partition in self._partitions.values()]
            if None not in moments:
                self._through = min((moment for moment in moments if moment), key=lambda moment: moment.steady_ms)
        return self._through

    def is_at_end(self, partition: int, position: int, now: Moment, within_ms: int) -> bool:
        """Whether the brokers have said within this time that there was nothing beyond the position."""
        known = self._partitions.get(partition)
        answers = () if known is None else (known.pending, known.newest)
        return any(one and position >= one[1] and one[0].until(now) <= within_ms for one in answers)

    def behind(self, positions: Offsets) -> int:
        """How many offsets are known to be missing (gaps counted in), for progress and messages."""
        ends: Mapping[int, int] = {
            number: (partition.newest or partition.pending)[1]  # type: ignore[index] # one of both, where it waits
            for number, partition in self._partitions.items()
            if partition.newest or partition.pending
        }
        return sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())

    @staticmethod
    def _reach(partition: _Partition, position: int, now: Moment, within_ms: int) -> bool:
        was_reached = False
        while partition.pending is not None and position >= partition.pending[1]:
            if partition.pending[0].until(now) <= within_ms:
                partition.reached = partition.pending[0]
                was_reached = True
            partition.pending, partition.newest = partition.newest, None
        return was_reached

"""complete_through: up to which moment a table is known to be complete, proven by asking the brokers where it ends.

The clock is read when the request is *sent*: everything committed before is below the answered end offsets. Once
everything below them is published, the table is complete through that moment - unless it took so long that the topic's
cleaner may have removed records before they were read. An answer that is reached later proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from enrich.host.claims.moments import Moment
from stores.table import Offsets


@dataclass(frozen=True)
class Ends:
    """The end offsets of a topic (its last stable offsets), answered to a request that was sent at `asked`."""

    asked: Moment
    offsets: Offsets


@dataclass(slots=True)
class _Partition:
    """Keeps the oldest answer not yet reached beside the newest one. If each answer replaced the last, a table that is
    always a little behind would never be complete through any moment."""

    reached: Moment | None
    pending: tuple[Moment, int] | None = None
    newest: tuple[Moment, int] | None = None


class Completeness:
    """The completeness of one table."""

    def __init__(self, since: Moment | None = None) -> None:
        """`since`: up to when the rows of the previous agent are complete; None if unknown."""
        self._since = since
        self._through: Moment | None = None
        self._partitions: dict[int, _Partition] = {}
        self._waiting: set[int] = set()
        """The partitions that have not reached an answer yet."""

    @classmethod
    def of(cls, ends: Ends) -> "Completeness":
        """The completeness of a table that was just loaded up to these ends."""
        loaded = cls(ends.asked)
        loaded._partitions = {partition: _Partition(ends.asked) for partition in ends.offsets}
        loaded._through = ends.asked
        return loaded

    @property
    def complete_through(self) -> Moment | None:
        """None until each partition has reached an end that was asked for since this agent started. It never goes back
        on the steady clock, but it does when the system's clock is set back: see `Moment.on_clock_of`."""
        return self._through

    @property
    def since(self) -> Moment | None:
        """complete_through, or else what the previous agent has proven."""
        return self._through or self._since

    def proven(self, partition: int) -> Moment | None:
        """Up to when it is proven that no record of the partition is missing."""
        known = self._partitions.get(partition)
        return self.since if known is None or known.reached is None else known.reached

    def asked(self, ends: Ends) -> None:
        """Takes an answer of the brokers."""
        for partition, end in ends.offsets.items():
            known = self._partitions.get(partition)
            if known is None:
                # A partition that was added since then has no earlier records.
                known = self._partitions[partition] = _Partition(self._through)
            # An end before the pending one: brokers have lost records, and that one may never be reached.
            if known.pending is None or end < known.pending[1]:
                known.pending, known.newest = (ends.asked, end), None
                self._waiting.add(partition)
            else:
                known.newest = ends.asked, end

    def published(self, positions: Offsets, now: Moment, within_ms: int) -> Moment | None:
        """Everything below these positions is visible now. An answer counts only if it was reached within `within_ms`
        after the request. Returns complete_through."""
        if not self._waiting:
            return self._through
        reached = [p for p in self._waiting if self._reach(self._partitions[p], positions.get(p, 0), now, within_ms)]
        self._waiting.difference_update([p for p in reached if self._partitions[p].pending is None])
        if reached:
            self._through = self._reached_by_all() or self._through
        return self._through

    def _reached_by_all(self) -> Moment | None:
        oldest: Moment | None = None
        for partition in self._partitions.values():
            moment = partition.reached
            if moment is None:
                return None
            if oldest is None or moment.steady_ms < oldest.steady_ms:
                oldest = moment
        return oldest

    def is_at_end(self, partition: int, position: int, now: Moment, within_ms: int) -> bool:
        """Whether an answer of the brokers that is at most `within_ms` old had nothing beyond the position."""
        known = self._partitions.get(partition)
        answers = () if known is None else (known.pending, known.newest)
        return any(one and position >= one[1] and one[0].until(now) < within_ms for one in answers)

    def behind(self, positions: Offsets) -> int:
        """How many offsets are left to read (compaction gaps included), for progress and messages."""
        ends: Mapping[int, int] = {
            number: (partition.newest or partition.pending)[1]  # type: ignore[index] # one of both is set
            for number, partition in self._partitions.items()
            if partition.newest or partition.pending
        }
        return sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())

    @staticmethod
    def _reach(partition: _Partition, position: int, now: Moment, within_ms: int) -> bool:
        was_reached = False
        while partition.pending is not None and position >= partition.pending[1]:
            if partition.pending[0].until(now) < within_ms:
                partition.reached = partition.pending[0]
                was_reached = True
            partition.pending, partition.newest = partition.newest, None
        return was_reached

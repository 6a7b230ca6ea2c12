"""Finds the version of a key for an as-of time and a pin, reading as little history as possible."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stores.rocks.database import Database
from stores.rocks.layout import HAS_HISTORY, LAST_POSITION, UNORDERED, Entry, decode, end_of, history_prefix, up_to
from stores.table import Offsets


@dataclass(frozen=True, slots=True)
class Past:
    """The superseded versions of one table."""

    database: Database
    table_id: int

    def all_of(self, key: bytes) -> Iterator[Entry]:
        begin = history_prefix(self.table_id, key)
        for _, row in self.database.scan(begin, end_of(begin)):
            yield from decode(row)

    def visible(self, key: bytes, latest: Sequence[Entry], time: int | None, pin: Offsets | None) -> Entry | None:
        """The version that answers, given the newest one of each partition."""
        if time is not None:
            return self._as_of(key, latest, time, pin)
        if pin is None:
            return max(latest, default=None)
        return max((found for entry in latest if (found := self._pinned(key, entry, pin)) is not None), default=None)

    def _as_of(self, key: bytes, latest: Sequence[Entry], time: int, pin: Offsets | None) -> Entry | None:
        best = max((entry for entry in latest if entry.timestamp <= time and _is_under(entry, pin)), default=None)
        if any(entry.flags & HAS_HISTORY for entry in latest):
            # Going back from the time, the first one met has the greatest position; a pin may skip a few.
            for entry in self._back_from(key, up_to(time)):
                if best is not None and entry < best:
                    break
                if _is_under(entry, pin):
                    return entry
        return best

    def _pinned(self, key: bytes, newest: Entry, pin: Offsets) -> Entry | None:
        """The version with the greatest offset below the pin, in the partition of the newest one."""
        if _is_under(newest, pin):
            return newest
        if not newest.flags & HAS_HISTORY or newest.partition not in pin:
            return None
        under = (
            entry
            for entry in self._back_from(key, LAST_POSITION)
            if entry.partition == newest.partition and _is_under(entry, pin)
        )
        if newest.flags & UNORDERED:
            return max(under, key=lambda entry: entry.offset, default=None)
        return next(under, None)

    def _back_from(self, key: bytes, position: bytes) -> Iterator[Entry]:
        begin = history_prefix(self.table_id, key)
        for _, row in self.database.scan_back(begin, begin + position):
            yield from decode(row)


def _is_under(entry: Entry, pin: Offsets | None) -> bool:
    return pin is None or entry.offset < pin.get(entry.partition, 0)

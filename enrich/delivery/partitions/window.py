"""Which records of a partition are under way, and up to where all of them are settled."""

from collections import OrderedDict
from collections.abc import Iterable


class Window:
    """Records are settled in any order. An offset is committed once nothing below it is under way."""

    def __init__(self, position: int, done: Iterable[tuple[int, int]] = ()) -> None:
        """`position`: the offset to commit while nothing is settled. `done`: (first, last) of records above it that
        were settled before."""
        self._position = position
        self._sizes: OrderedDict[int, int] = OrderedDict()
        """By offset, of the records that are not committed yet."""
        self._settled: set[int] = set()
        self._done = [(first, last) for first, last in done if last >= position]
        self.size = 0
        """Bytes of the records that are not committed yet."""

    def __len__(self) -> int:
        """How many records are not committed yet, settled ones behind an open one included."""
        return len(self._sizes)

    def take(self, offset: int, size: int) -> bool:
        """A record is under way. Offsets come in rising order. False: it was settled before, and is so again."""
        self._sizes[offset] = size
        self.size += size
        if self._done and self._was_done(offset):
            self.settle([offset])
            return False
        return True

    def settle(self, offsets: Iterable[int]) -> None:
        """These are delivered, or stand somewhere else. Settling one twice changes nothing."""
        self._settled.update(offset for offset in offsets if offset in self._sizes)
        while self.oldest in self._settled:
            first, size = self._sizes.popitem(last=False)
            self._settled.discard(first)
            self.size -= size
            self._position = first + 1

    def read_to(self, position: int) -> None:
        """Everything below was read, records or not: gaps of compaction and transactions' markers too."""
        if not self._sizes:
            self._position = max(self._position, position)

    @property
    def position(self) -> int:
        """The offset to commit."""
        return self._position

    @property
    def oldest(self) -> int | None:
        """The record that keeps the position where it is."""
        return next(iter(self._sizes), None)

    def settled_beyond(self) -> tuple[tuple[int, int], ...]:
        """(first, last) of what is settled above the position."""
        ranges: list[tuple[int, int]] = []
        first = last = -1
        if self._settled:
            for offset in self._sizes:
                if offset in self._settled:
                    first, last = (offset if first < 0 else first), offset
                elif first >= 0:
                    ranges.append((first, last))
                    first = -1
        if first >= 0:
            ranges.append((first, last))
        # What was settled before and is not read again yet.
        read = next(reversed(self._sizes), self._position - 1)
        ranges += [(max(first, read + 1), last) for first, last in self._done if last > read]
        return tuple(ranges)

    def _was_done(self, offset: int) -> bool:
        while self._done and self._done[0][1] < offset:
            del self._done[0]
        return bool(self._done) and self._done[0][0] <= offset

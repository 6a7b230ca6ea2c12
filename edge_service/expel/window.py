"""Which records of a partition are under way, and up to where all of them are settled."""

from collections import OrderedDict
from collections.abc import Iterable


class Window:
    """Records are settled in any order. An offset is committed once nothing below it is under way."""

    def __init__(self, position: int) -> None:
        """`position`: the offset to commit while nothing is settled."""
        self._position = position
        self._sizes: OrderedDict[int, int] = OrderedDict()
        """By offset, of the records that are not committed yet."""
        self._settled: set[int] = set()
        self.size = 0
        """Bytes of the records that are not committed yet."""

    def __len__(self) -> int:
        """How many records are not committed yet, settled ones behind an open one included."""
        return len(self._sizes)

    def take(self, offset: int, size: int) -> None:
        """A record is under way. Offsets come in rising order."""
        self._sizes[offset] = size
        self.size += size

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

"""Adds up what a node has to say until it can be said: tallies of the same route and minute become one."""

from collections.abc import Iterable, Sequence

from enrich.tally.origins import Origins, Read
from enrich.tally.report import Tally


class Gathered:
    def __init__(self) -> None:
        self._tallies: dict[tuple[str, int | None], Tally] = {}
        self._reads: list[Read] = []

    def __bool__(self) -> bool:
        return bool(self._tallies or self._reads)

    def add(self, tallies: Iterable[Tally], reads: Iterable[Read]) -> None:
        for tally in tallies:
            key = tally.route, tally.minute
            mine = self._tallies.get(key)
            self._tallies[key] = tally if mine is None else together(mine, tally)
        for read in reads:
            self._add_read(read)

    def taken(self) -> tuple[Sequence[Tally], Sequence[Read]]:
        """All that was added; nothing is left."""
        tallies, reads = [*self._tallies.values()], [*self._reads]
        self._tallies.clear()
        self._reads.clear()
        return tallies, reads

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        return sum(
            size_of(some)
            for tally in self._tallies.values()
            for some in (tally.came, tally.went, tally.dropped, tally.dead, tally.waiting)
        )

    def _add_read(self, read: Read) -> None:
        for index, mine in enumerate(self._reads):
            is_next = mine.following == read.first
            if is_next and (mine.topic, mine.partition) == (read.topic, read.partition):
                self._reads[index] = Read(read.topic, read.partition, mine.first, read.following)
                return
        if read.following > read.first:
            self._reads.append(read)


def together(one: Tally, other: Tally) -> Tally:
    """Of the same route and minute."""
    return Tally(
        one.route,
        one.minute,
        one.came | other.came,
        one.went | other.went,
        one.dropped | other.dropped,
        one.dead | other.dead,
        one.waiting | other.waiting,
        one.lag + other.lag,
    )


def size_of(origins: Origins) -> int:
    size = 0
    for some in origins.by_place.values():
        known = some.get_statistics()
        size += known["n_bytes_array_containers"] + known["n_bytes_bitset_containers"]
        size += known["n_bytes_run_containers"]
    return size

"""Adds up what a node has to say until it can be said: tallies of the same route and minute become one."""

from collections.abc import Iterable, Sequence

from enrich.tally.histogram import Histogram
from enrich.tally.origins import Origins, Read
from enrich.tally.report import Tally

# What objects take in memory, measured with 20,000 tallies: few origins take more for where they are than as bits.
_TALLY_BYTES, _PLACE_BYTES, _HISTOGRAM_BYTES, _READ_BYTES = 200, 700, 350, 150


class Gathered:
    def __init__(self) -> None:
        self._tallies: dict[tuple[str, int | None], Tally] = {}
        self._reads: list[Read] = []
        self._size_of_tallies = 0

    def __bool__(self) -> bool:
        return bool(self._tallies or self._reads)

    def add(self, tallies: Iterable[Tally], reads: Iterable[Read]) -> None:
        for tally in tallies:
            key = tally.route, tally.minute
            mine = self._tallies.get(key)
            all_of_it = tally if mine is None else together(mine, tally)
            self._tallies[key] = all_of_it
            self._size_of_tallies += _size_of(all_of_it) - (0 if mine is None else _size_of(mine))
        for read in reads:
            self._add_read(read)

    def taken(self) -> tuple[Sequence[Tally], Sequence[Read]]:
        """All that was added; nothing is left."""
        tallies, reads = [*self._tallies.values()], [*self._reads]
        self._tallies.clear()
        self._reads.clear()
        self._size_of_tallies = 0
        return tallies, reads

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        return self._size_of_tallies + len(self._reads) * _READ_BYTES

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


def _size_of(tally: Tally) -> int:
    sets = tally.came, tally.went, tally.dropped, tally.dead, tally.waiting
    lag = tally.lag
    return _TALLY_BYTES + sum(map(size_of, sets)) + sum(map(_size_of_histogram, (lag.came, lag.went, lag.took)))


def _size_of_histogram(some: Histogram) -> int:
    return _HISTOGRAM_BYTES + some.counts.nbytes if some else 0


def size_of(origins: Origins) -> int:
    size = len(origins.by_place) * _PLACE_BYTES
    for some in origins.by_place.values():
        known = some.get_statistics()
        size += known["n_bytes_array_containers"] + known["n_bytes_bitset_containers"]
        size += known["n_bytes_run_containers"]
    return size

"""Exact sets of origins: the places by which events came into the pipeline."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap64

Place = tuple[str, int]
"""Topic and partition."""
Range = tuple[str, int, int, int]
"""Topic, partition, the first and the last offset: both are in it."""

MOST_OFFSET = 2**63 - 1


class Origins:
    """A set of topic/partition/offset, which is not changed once it is made. `|`, `&` and `-` make others.

    A range costs next to nothing, however long it is. The bitmaps of `by_place` must not be changed either.
    """

    __slots__ = ("by_place",)

    def __init__(self, by_place: Mapping[Place, BitMap64] | None = None) -> None:
        """The bitmaps are taken over. Empty ones are left out."""
        self.by_place: Mapping[Place, BitMap64] = {place: some for place, some in (by_place or {}).items() if some}

    @classmethod
    def of_ranges(cls, ranges: Iterable[Range]) -> "Origins":
        """A range whose last offset is below its first is empty."""
        by_place: dict[Place, BitMap64] = {}
        for topic, partition, first, last in ranges:
            by_place.setdefault((topic, partition), BitMap64()).add_range(first, last + 1)
        return cls(by_place)

    @classmethod
    def of_offsets(cls, topic: str, partition: int, offsets: Sequence[int] | np.ndarray) -> "Origins":
        """In any order, and each as often as you like."""
        return cls({(topic, partition): bitmap_of(offsets)})

    @classmethod
    def of_places(cls, by_place: Mapping[Place, Sequence[int] | np.ndarray]) -> "Origins":
        """The same for many places at once."""
        return cls({place: bitmap_of(offsets) for place, offsets in by_place.items()})

    def __len__(self) -> int:
        return sum(map(len, self.by_place.values()))

    def __bool__(self) -> bool:
        return bool(self.by_place)

    def __contains__(self, origin: tuple[str, int, int]) -> bool:
        topic, partition, offset = origin
        some = self.by_place.get((topic, partition))
        return some is not None and offset in some

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origins) and self.by_place == other.by_place

    def __hash__(self) -> int:
        return hash(frozenset((place, len(some)) for place, some in self.by_place.items()))

    def __repr__(self) -> str:
        shown = [text(one) for one in self.ranges(4)]
        return f"Origins({len(self)}: {', '.join(shown[:3])}{', ...' if len(shown) > 3 else ''})"

    def __or__(self, other: "Origins") -> "Origins":
        if not other:
            return self
        by_place = {**self.by_place}
        for place, some in other.by_place.items():
            mine = by_place.get(place)
            by_place[place] = some if mine is None else _joined(mine, some)
        return Origins(by_place)

    def __and__(self, other: "Origins") -> "Origins":
        places = self.by_place.keys() & other.by_place.keys()
        return Origins({place: self.by_place[place] & other.by_place[place] for place in places})

    def __sub__(self, other: "Origins") -> "Origins":
        theirs = other.by_place
        return Origins(
            {place: some - theirs[place] if place in theirs else some for place, some in self.by_place.items()}
        )

    @property
    def size(self) -> int:
        """Bytes that its offsets take in memory."""
        return sum(map(_bytes_of, self.by_place.values()))

    def ranges(self, most: int | None = None) -> Iterator[Range]:
        """The set as ranges in order, so many at most."""
        left = MOST_OFFSET if most is None else most
        for (topic, partition), some in sorted(self.by_place.items()):
            for first, last in _runs(some):
                if left <= 0:
                    return
                left -= 1
                yield topic, partition, first, last


def _bytes_of(some: BitMap64) -> int:
    found = some.get_statistics()
    return found["n_bytes_array_containers"] + found["n_bytes_run_containers"] + found["n_bytes_bitset_containers"]


def joined(some: Iterable[Origins]) -> Origins:
    """All together. In pairs: a chain of `|` would copy at each step what it has so far."""
    sets = [*some]
    while len(sets) > 1:
        pairs = [one | other for one, other in zip(sets[::2], sets[1::2], strict=False)]
        sets = [*pairs, *sets[2 * len(pairs) :]]
    return sets[0] if sets else Origins()


def _joined(one: BitMap64, other: BitMap64) -> BitMap64:
    both = one | other
    # What came in disorder is a range in the end, or nearly one, which then takes few bytes again.
    if both and len(both) * 8 > (both.max() - both.min()) * 7:
        both.run_optimize()
    return both


def bitmap_of(offsets: Sequence[int] | np.ndarray) -> BitMap64:
    if isinstance(offsets, np.ndarray):
        offsets = array("Q", offsets.astype(np.uint64).tobytes())
    return BitMap64(offsets)


def text(one: Range) -> str:
    """topic/partition/first-last, or topic/partition/offset."""
    topic, partition, first, last = one
    return f"{topic}/{partition}/{first}" if first == last else f"{topic}/{partition}/{first}-{last}"


def is_range(some: BitMap64) -> bool:
    """Whether nothing is missing between its first and its last."""
    return bool(some) and some.max() - some.min() + 1 == len(some)


def _runs(some: BitMap64) -> Iterator[tuple[int, int]]:
    # Whole sets at a time: as numbers a set may take a thousand times what it takes as a set. `contains_range` is not
    # to be used: pyroaring 1.2 says of {65535, 2**32} that it contains 65535-65540.
    firsts, lasts = some - some.shift(1), some - some.shift(-1)
    yield from zip(firsts, lasts, strict=True)


@dataclass(frozen=True, slots=True)
class Read:
    """What a node has read of a partition: everything from `first` up to `following`, which is not in it."""

    topic: str
    partition: int
    first: int
    following: int

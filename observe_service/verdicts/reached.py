"""Up to when a node has read all that there was: only then is an event that it has said nothing of a lost one."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from enrich.tally import Node, Origins
from enrich.tally.origins import Place, Range

Ends = Mapping[Place, int]
"""Of a topic's partition: the offset after its last record."""

_LEAST, _MOST_ENDS = 60, 200_000
_PATIENCE_MS = 120_000
"""A hole in what a node has read that is not filled by then stays: what it had to say was given up."""


@dataclass(frozen=True)
class Torn:
    """The node has read on and has not said what became of some records that came in between these times."""

    node: Node
    after_ms: int
    until_ms: int


class Reached:
    """Given the ends of topics from time to time, and what a node has read."""

    def __init__(self, most: int = 3_600) -> None:
        """`most`: how many looks are remembered of a node that is behind; fewer if it reads many partitions. Of more,
        every second one is forgotten."""
        self._most = most
        self._looks: dict[Node, deque[tuple[int, Ends]]] = {}
        self._until: dict[Node, int] = {}
        self._passed_ms: dict[Node, int] = {}
        """When a node had read past the first of its looks, and left a hole."""
        self.torn: list[Torn] = []
        self._bases: dict[Node, dict[Place, int]] = {}
        """Below, all is read. A place that is not in it begins with 0."""

    def look(self, node: Node, topics: Sequence[str], at_ms: int, ends: Ends) -> None:
        """`ends`: as they were at this time, or later."""
        own = {place: end for place, end in ends.items() if place[0] in topics}
        looks = self._looks.setdefault(node, deque())
        for gone in {place[0] for place in (looks[0][1] if looks else ())} - {*topics}:
            self.forget_topic(gone)  # it is deleted: nobody can read on there
            looks = self._looks[node]
        if looks and looks[-1][1] == own and len(looks) > 1 and looks[-2][1] == own:
            looks[-1] = (at_ms, own)  # nothing has come: the first and the last of such looks are enough
            return
        looks.append((at_ms, own))
        if len(looks) > min(self._most, max(_LEAST, _MOST_ENDS // max(len(own), 1))):
            self._looks[node] = deque(look for index, look in enumerate(looks) if index % 2)

    def begin(self, node: Node, bases: Mapping[Place, int]) -> None:
        """`bases`: offsets below which it has read, or records were there before anything that is judged. Nothing
        changes of places that are known already."""
        self._bases[node] = {**bases, **self._bases.get(node, {})}

    def bases(self, node: Node) -> Mapping[Place, int]:
        """Below, what a node has read is of no interest any more."""
        return self._bases.get(node, {})

    def until_ms(self, node: Node, reads: Origins, now_ms: int) -> int:
        """The last look of which the node has read and reported all since. 0: none."""
        looks, bases = self._looks.get(node, deque()), self._bases.setdefault(node, {})
        while looks:
            at_ms, ends = looks[0]
            is_whole = all(_has_all(reads, place, bases.get(place, 0), end) for place, end in ends.items())
            if not is_whole:
                if not all(is_beyond(reads, place, bases.get(place, 0), end) for place, end in ends.items()):
                    self._passed_ms.pop(node, None)
                    break
                if now_ms - self._passed_ms.setdefault(node, now_ms) < _PATIENCE_MS:
                    break
                self.torn.append(Torn(node, self._until.get(node, 0), at_ms))
            self._passed_ms.pop(node, None)
            self._until[node] = at_ms
            for place, end in ends.items():
                bases[place] = max(bases.get(place, 0), end)
            looks.popleft()
        return self._until.get(node, 0)

    def missing(self, node: Node, reads: Origins, most: int = 16) -> Sequence[Range]:
        """Of the first look that the node is not past: where nothing was reported yet."""
        looks, bases = self._looks.get(node), self._bases.get(node, {})
        found: list[Range] = []
        for place, end in looks[0][1].items() if looks else ():
            found += _holes(reads, place, bases.get(place, 0), end, most - len(found))
        return found

    def forget_topic(self, topic: str) -> None:
        """It was made again: nothing of it is read."""
        for node, looks in self._looks.items():
            kept = [(at_ms, {place: end for place, end in ends.items() if place[0] != topic}) for at_ms, ends in looks]
            self._looks[node] = deque(kept)
        for bases in self._bases.values():
            for place in [place for place in bases if place[0] == topic]:
                del bases[place]

    def passed(self, node: Node, known: Origins, most: int) -> Sequence[Range]:
        """Up to the newest look: the holes in what is known that the node is beyond."""
        looks, bases = self._looks.get(node), self._bases.get(node, {})
        found: list[Range] = []
        for place, end in looks[-1][1].items() if looks else ():
            base, some = bases.get(place, 0), known.by_place.get(place)
            following = base if some is None else min(end, some.max() + 1)
            found += _holes(known, place, base, following, most - len(found))
        return found

    def forget_torn(self, before_ms: int) -> None:
        self.torn = [torn for torn in self.torn if torn.until_ms >= before_ms]


def _holes(known: Origins, place: Place, base: int, end: int, most: int) -> Iterable[Range]:
    if _has_all(known, place, base, end):
        return ()
    return (Origins.of_ranges([(*place, base, end - 1)]) - known).ranges(most)


def _has_all(reads: Origins, place: Place, base: int, end: int) -> bool:
    """A hole is not read: who left it could not say what became of what is in it."""
    if end <= base:
        return True
    some = reads.by_place.get(place)
    if some is None:
        return False
    return bool(some.rank(end - 1) - (some.rank(base - 1) if base else 0) == end - base)


def is_beyond(reads: Origins, place: Place, base: int, end: int) -> bool:
    some = reads.by_place.get(place)
    return end <= base or (some is not None and some.max() >= end - 1)


def up_to_unread(empty: Origins, reads: Origins, bases: Mapping[Place, int]) -> Origins:
    """Of the offsets without a record those before the first record that is not read."""
    found = {}
    for place, some in empty.by_place.items():
        read = reads.by_place.get(place)
        following = max(bases.get(place, 0), 0 if read is None else read.max() + 1)
        for _, _, first, last in Origins({place: some}).ranges():
            if first > following:
                break
            following = max(following, last + 1)
        found[place] = some[: some.rank(following - 1)] if following else BitMap64()
    return Origins(found)

"""Up to when a node has read all that there was: only then is an event that it has said nothing of a lost one."""

from collections import deque
from collections.abc import Mapping, Sequence

from enrich.tally import Merged, Node, Origins

Ends = Mapping[tuple[str, int], int]
"""Of a topic's partition: the offset after its last record."""


class Reached:
    """Given the ends of topics from time to time, and what a node has read."""

    def __init__(self, most: int = 3_600) -> None:
        """`most`: how many looks are remembered of a node that is behind. Of more, every second one is forgotten."""
        self._most = most
        self._looks: dict[Node, deque[tuple[int, Ends]]] = {}
        self._until: dict[Node, int] = {}

    def look(self, node: Node, topics: Sequence[str], at_ms: int, ends: Ends) -> None:
        """`ends`: as they were at this time, or later."""
        own = {place: end for place, end in ends.items() if place[0] in topics}
        looks = self._looks.setdefault(node, deque())
        looks.append((at_ms, own))
        if len(looks) > self._most:
            self._looks[node] = deque(look for index, look in enumerate(looks) if index % 2)

    def until_ms(self, node: Node, merged: Merged) -> int:
        """The last look of which the node has read and reported all since. 0: none."""
        reads, looks = merged.reads.get(node, Origins()), self._looks.get(node, deque())
        while looks and all(_has_all(reads, place, end) for place, end in looks[0][1].items()):
            self._until[node] = looks.popleft()[0]
        return self._until.get(node, 0)


def _has_all(reads: Origins, place: tuple[str, int], end: int) -> bool:
    """A hole is not read: who left it could not say what became of what is in it. What lies before the first that was
    ever reported was there before tallies were."""
    some = reads.by_place.get(place)
    if some is None or not some:
        return end == 0
    first = some.min()
    return end <= first or some.rank(end - 1) == end - first

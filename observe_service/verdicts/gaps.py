"""Where a node has reported nothing: which of it is worth a look at the topic, and when."""

from collections.abc import Sequence

from enrich.tally import Node, Origins
from enrich.tally.origins import Range
from enrich.tally.report import NOWHERE
from observe_service.verdicts.books import above
from observe_service.verdicts.reached import Reached, is_beyond

_MOST_PASSED, _MOST_RANGES = 20_000, 500
_MOST_AHEAD = 1_000
_STUCK_S = 5.0


class Gaps:
    """A node reports what it reads: not the markers of transactions, nor what was aborted, compacted or deleted."""

    def __init__(self) -> None:
        self._taken: dict[Node, Origins] = {}
        """Where there are records, of which the node has said nothing."""
        self._stuck_s: dict[Node, float] = {}
        """Since when a node has not come to what is ahead of it."""

    def due(
        self, node: Node, reached: Reached, reads: Origins, now_s: float, empty: Origins = NOWHERE
    ) -> Sequence[Range]:
        """So much of it at once. `empty`: where there is known to be nothing, beyond what the node has come to.

        What a node has passed by is looked into at once: behind a stage that writes in transactions there are tens of
        holes a second. What is ahead only if it stays for some time: mostly the node is just behind. If it is much, its
        beginning is enough, which holds a record then; what was aborted holds none."""
        taken = self._taken.get(node, Origins())
        due, room = list[Range](), _MOST_PASSED
        for topic, partition, first, last in reached.passed(node, reads | empty | taken, _MOST_RANGES):
            if room > 0:
                due.append((topic, partition, first, min(last, first + room - 1)))
                room -= last - first + 1
        missing = reached.missing(node, reads | empty)
        ahead = [each for each in missing if not is_beyond(reads, each[:2], each[2], each[3] + 1)]
        if not ahead:
            self._stuck_s.pop(node, None)
        elif now_s >= self._stuck_s.setdefault(node, now_s) + _STUCK_S:
            self._stuck_s[node] = now_s
            is_little = sum(last - first + 1 for *_, first, last in ahead) <= _MOST_AHEAD
            due += ahead if is_little else [each for each in ahead[:1] if each[:3] not in taken]
        return due

    def looked(self, node: Node, reached: Reached, records: Origins) -> None:
        """There are these, which need no second look."""
        taken = self._taken.get(node, Origins()) | records
        self._taken[node] = above(taken, reached.bases(node))

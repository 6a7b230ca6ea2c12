"""How many origins of each minute went at each node: what its lags count beyond that are duplicates."""

from collections.abc import Collection, Mapping

from enrich.tally import Node, Origins, Report
from enrich.tally.origins import joined
from observe_service.verdicts.books import Books


class Gone:
    """Of lots that are closed. What went of those that are open is in the books."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Node, int], int] = {}
        self._now: dict[Node, Origins] = {}
        """What was said to have gone since the last tick, and not before."""

    def of(self, node: Node, minute: int) -> int:
        return self._counts.get((node, minute), 0)

    def heard(self, report: Report, books: Books) -> None:
        """Before the books take it."""
        before = books.of(report.node).went
        for tally in report.tallies:
            if not tally.route and (new := tally.went - before):
                self._now[report.node] = self._now.get(report.node, Origins()) | new

    def closed(self, node: Node, minute: int, count: int) -> None:
        self._counts[node, minute] = self.of(node, minute) + count

    def heard_since(self) -> Mapping[Node, Origins]:
        """Since it was asked last."""
        found, self._now = self._now, {}
        return found

    def forget(self, before: int) -> None:
        self._counts = {key: count for key, count in self._counts.items() if key[1] >= before}


class GoneLate:
    """Of a tick: what went although its lot is closed, such as retries. A node may be on several ways."""

    def __init__(self, gone: Gone) -> None:
        self._gone = gone
        self._now = gone.heard_since()
        self._counted: dict[tuple[Node, int], Origins] = {}

    def take(self, nodes: Collection[Node], minute: int, followed: Origins, is_open: Collection[Origins]) -> None:
        """`followed`: what remained of the minute on a way over these nodes."""
        for node in nodes:
            went = followed & self._now.get(node, Origins())
            if not went:
                continue
            known = self._counted.get((node, minute), Origins())
            late = went - known - joined(is_open)
            self._gone.closed(node, minute, len(late))
            self._counted[node, minute] = known | late

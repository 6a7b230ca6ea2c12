"""Adds reports up. Their order makes no difference, and saying one again changes nothing.

Sets are joined, which may be repeated. Lags are sums, which may not: of each route and minute the first that is said
with an id counts. A reporter gives an id once, or to the same batch for ever: see docs/adr/0044-tallies.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

from pyroaring import BitMap64

from enrich.tally.lags import NO_LAG, Lag
from enrich.tally.origins import Origins
from enrich.tally.report import NOWHERE, Node, Report, Tally

Key = tuple[Node, str, int | None]
"""Node, route, minute."""


@dataclass(slots=True)
class MergedTally:
    """Of one node, route and minute: the sets as reported. An origin may be in several: it waited, then went."""

    came: Origins = NOWHERE
    went: Origins = NOWHERE
    dropped: Origins = NOWHERE
    dead: Origins = NOWHERE
    waiting: Origins = NOWHERE
    lag: Lag = NO_LAG
    _heard: dict[str, BitMap64] = field(default_factory=dict)
    """Of each reporter the sequences whose lag is in it."""

    def take(self, tally: Tally, reporter: str, sequence: int) -> None:
        self.came |= tally.came
        self.went |= tally.went
        self.dropped |= tally.dropped
        self.dead |= tally.dead
        self.waiting |= tally.waiting
        if tally.lag:
            heard = self._heard.setdefault(reporter, BitMap64())
            if sequence not in heard:
                heard.add(sequence)
                self.lag += tally.lag

    @property
    def still_waiting(self) -> Origins:
        """What waited and has gone since does not wait any more."""
        return self.waiting - self.went - self.dead

    @property
    def only_dead(self) -> Origins:
        """A dead letter that was replayed, and went, is none any more."""
        return self.dead - self.went

    @property
    def known(self) -> Origins:
        """All that anything was said of."""
        return self.came | self.went | self.dropped | self.dead | self.waiting

    def joined(self, other: "MergedTally") -> "MergedTally":
        """With that of another minute, whose lags are other events'."""
        return MergedTally(
            self.came | other.came,
            self.went | other.went,
            self.dropped | other.dropped,
            self.dead | other.dead,
            self.waiting | other.waiting,
            self.lag + other.lag,
        )


@dataclass(slots=True)
class Merged:
    by_key: dict[Key, MergedTally] = field(default_factory=dict)
    reads: dict[Node, Origins] = field(default_factory=dict)
    """What each node has read, as sets of offsets of the topics that it reads: what is in a hole was not reported."""
    latest_ms: dict[Node, int] = field(default_factory=dict)
    """When each node last said something."""

    def take(self, report: Report) -> None:
        for tally in report.tallies:
            merged = self.by_key.setdefault((report.node, tally.route, tally.minute), MergedTally())
            merged.take(tally, report.reporter, report.sequence)
        if report.reads:
            ranges = [(read.topic, read.partition, read.first, read.following - 1) for read in report.reads]
            self.reads[report.node] = self.reads.get(report.node, NOWHERE) | Origins.of_ranges(ranges)
        self.latest_ms[report.node] = max(self.latest_ms.get(report.node, 0), report.at_ms)

    def minutes_of(self, node: Node, route: str = "") -> Mapping[int | None, MergedTally]:
        return {key[2]: merged for key, merged in self.by_key.items() if key[:2] == (node, route)}

    def of(self, node: Node, route: str = "") -> MergedTally:
        """Of all minutes together."""
        return reduce(MergedTally.joined, self.minutes_of(node, route).values(), MergedTally())

    def forget(self, key: Key) -> None:
        """Of a minute that is judged."""
        self.by_key.pop(key, None)

"""What the nodes have said of the events that are not judged for good yet."""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType

from pyroaring import BitMap64

from enrich.tally import MergedTally, Node, Origins, Report, minute_of
from enrich.tally.lags import NO_LAG, Lag
from enrich.tally.origins import Place
from enrich.verdict.minute import AHEAD

_NOTHING = MergedTally()
_SEQUENCE_BITS = 40


@dataclass(slots=True)
class MinuteLag:
    """How late the events of a minute were at a node."""

    lag: Lag = NO_LAG
    again: int = 0
    """How often an event went once more after the minute was judged. It says nothing of how late events were."""
    heard: BitMap64 = field(default_factory=BitMap64)
    """The reports whose lag is in it: the number of the reporter, and below it the sequence. One set: of a stage each
    partition is a reporter, and with a set for each two days of 100 partitions took 155 MiB instead of 42."""

    def take(self, lag: Lag, report: int, first: int | None = None) -> None:
        """`first`: how many of these events, at most, went for the first time; None: it may be all."""
        if report in self.heard:
            return
        self.heard.add(report)
        if first is None or first >= lag.went.count:
            self.lag += lag
        else:
            self.lag += lag.longest(first)
            self.again += lag.went.count - first


_NO_LAG = MinuteLag()


@dataclass(slots=True)
class Books:
    sets: dict[tuple[Node, str], MergedTally] = field(default_factory=dict)
    """By node and route, of all minutes together: an origin belongs to the minute in which it came in."""
    lags: dict[tuple[Node, int], MinuteLag] = field(default_factory=dict)
    """By node and minute of event time."""
    reads: dict[Node, Origins] = field(default_factory=dict)
    """What each node has read, as sets of offsets of the topics that it reads: what is in a hole was not reported."""
    heard_ms: dict[Node, int] = field(default_factory=dict)
    """When the brokers had the last word of each node."""
    _numbers: dict[str, int] = field(default_factory=dict)
    """Of reporters whose lags were heard."""

    def take(
        self,
        report: Report,
        at_ms: int,
        before_ms: Callable[[Node, int], int],
        first: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """`at_ms`: when the brokers had it. `before_ms`: of a node and a minute, up to when its lags are in a verdict
        already. `first`: of minutes that are judged, how many events at most went for the first time."""
        node = report.node
        for tally in report.tallies:
            sets = self.sets.setdefault((node, tally.route), MergedTally())
            sets.take(replace(tally, lag=NO_LAG), report.reporter, report.sequence)
            if not tally.lag or tally.route or tally.minute is None or tally.minute > minute_of(at_ms) + AHEAD:
                continue  # a time that cannot be true: its minute may be years ahead
            if at_ms > before_ms(node, tally.minute):
                known = self.lags.setdefault((node, tally.minute), MinuteLag())
                known.take(tally.lag, self._heard(report), first.get(tally.minute))
        if report.reads:
            ranges = [(read.topic, read.partition, read.first, read.following - 1) for read in report.reads]
            self.reads[node] = self.reads.get(node, Origins()) | Origins.of_ranges(ranges)
        self.heard_ms[node] = max(self.heard_ms.get(node, 0), at_ms)

    def _heard(self, report: Report) -> int:
        number = self._numbers.setdefault(report.reporter, len(self._numbers))
        return (number << _SEQUENCE_BITS | report.sequence % (1 << _SEQUENCE_BITS)) % (1 << 64)

    def of(self, node: Node, route: str = "") -> MergedTally:
        return self.sets.get((node, route), _NOTHING)

    def lag(self, node: Node, minute: int) -> Lag:
        return self.lags.get((node, minute), _NO_LAG).lag

    def again(self, node: Node, minute: int) -> int:
        """How often an event of the minute went once more after it was judged."""
        return self.lags.get((node, minute), _NO_LAG).again

    def forget(self, origins: Origins, nodes: Container[Node]) -> None:
        """They are judged for good, as far as these nodes are concerned."""
        for known in (known for (node, _), known in self.sets.items() if node in nodes):
            for name in _SETS:
                setattr(known, name, getattr(known, name) - origins)

    def forget_below(self, floors: Callable[[Node], Mapping[Place, int]], but: Origins) -> None:
        """Of each place what is below: what a node says of it now is a repeat. `but`: of these it is not."""
        for (node, _), known in self.sets.items():
            own = floors(node)
            for name in _SETS:
                some = getattr(known, name)
                setattr(known, name, above(some, own) | (some & but))

    def forget_reads(self, node: Node, bases: Mapping[Place, int]) -> None:
        self.reads[node] = above(self.reads.get(node, Origins()), bases)

    def forget_topic(self, topic: str) -> None:
        """It was made again: its offsets are other records now."""
        for known in self.sets.values():
            for name in _SETS:
                setattr(known, name, without(getattr(known, name), topic))
        self.reads = {node: without(some, topic) for node, some in self.reads.items()}

    def forget_minutes(self, before: int) -> None:
        for key in [key for key in self.lags if key[1] < before]:
            del self.lags[key]


_SETS = ("came", "went", "dropped", "dead", "waiting")


def within(origins: Origins, topics: Sequence[str] | None) -> Origins:
    """Those of the topics; None: of all."""
    if topics is None:
        return origins
    return Origins({place: some for place, some in origins.by_place.items() if place[0] in topics})


def without(origins: Origins, topic: str) -> Origins:
    """Those of other topics."""
    return Origins({place: some for place, some in origins.by_place.items() if place[0] != topic})


def report_without(report: Report, topics: Collection[str]) -> Report:
    """What it says of others."""
    tallies = []
    for tally in report.tallies:
        sets = {name: reduce(without, topics, getattr(tally, name)) for name in _SETS}
        tallies.append(replace(tally, **sets))
    return replace(report, tallies=tallies, reads=[read for read in report.reads if read.topic not in topics])


def above(origins: Origins, floors: Mapping[Place, int]) -> Origins:
    """Without those below the floor of their place."""
    found = {**origins.by_place}
    for place, some in origins.by_place.items():
        floor = floors.get(place, 0)
        if some.min() < floor:
            found[place] = some[some.rank(floor - 1) :]
    return Origins(found)

"""What stands of a minute on one way: counts of what is final, and by name what may still become something else."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from enrich.tally import MergedTally, Node, Origins
from enrich.tally.lags import NO_LAG, Lag
from enrich.tally.origins import joined
from enrich.verdict.minute import FATES, HopVerdict, MinuteVerdict, State, Up, named, origins_of
from enrich.verdict.ways import Way
from observe_service.verdicts.books import Books, within
from observe_service.verdicts.judging import AtHop, judged

_BYTES, _PLACE_BYTES = 3_072, 400
"""Measured: of three hops, beside what the offsets take; and of a further partition."""
_COUNTS = ("came", "went", "elsewhere", "dropped", "dead", "waiting", "lost", "unknown", "open")


@dataclass(frozen=True)
class Sla:
    p95_ms: int


@dataclass(frozen=True)
class Times:
    """Of the events of a minute at one node."""

    lag: Lag = NO_LAG
    duplicates: int = 0


@dataclass
class Final:
    """Of one hop: what does not change any more."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    more: Mapping[str, int] = field(default_factory=dict)
    """Of those counts: how many once could not be named."""


@dataclass
class Standing:
    way: Way
    minute: int
    final: Sequence[Final]
    lost: list[Origins]
    """By hop: what is proved to be lost there."""
    remaining: Origins = field(default_factory=Origins)
    """Lost, unknown, waiting or dead: they are judged again when something is said of them."""
    unknown: Origins = field(default_factory=Origins)
    """All else that is missing: the node could not say what became of it, or has not come to it yet, since the one
    before it has told of it late."""
    lots: list[int | None] = field(default_factory=list)
    late: int = 0
    misdated: int = 0
    state: State = State.OPEN
    reason: str | None = None
    unanswered: str | None = None
    _sized: tuple[Origins, int] | None = None
    """How much was followed when it was last asked what that takes."""

    @property
    def size(self) -> int:
        """Bytes that it takes to follow what remains, about: here, and twice in what is known of each hop."""
        if self._sized is None or self._sized[0] is not self.remaining:
            sets = 3 + 2 * len(self.way.hops)
            places = _PLACE_BYTES * len(self.remaining.by_place)
            self._sized = self.remaining, _BYTES + places + sets * self.remaining.size
        return self._sized[1]

    @classmethod
    def new(cls, way: Way, minute: int) -> "Standing":
        return cls(way, minute, [Final() for _ in way.hops], [Origins() for _ in way.hops])

    @classmethod
    def of(cls, verdict: MinuteVerdict, way: Way, books: Books) -> "Standing":
        """As it stood when the verdict was written; the books are told what it names."""
        standing = cls.new(way, verdict.minute)
        standing.lots = [*verdict.lots]
        standing.late, standing.misdated, standing.unanswered = verdict.late, verdict.misdated, verdict.unanswered
        standing.state, standing.reason = verdict.state, verdict.reason
        if not verdict.lots:
            return standing  # nothing in it is final: it is judged again
        for index, hop in enumerate(verdict.hops):
            for fate in FATES:
                origins = origins_of(hop.names.get(fate, ()))
                standing._remember(index, fate, origins, books)
        at = judged(way, standing.remaining, books)
        for final, hop, now in zip(standing.final, verdict.hops, at, strict=True):
            counts = _counts(now, standing.unknown)
            final.counts = {name: getattr(hop, name) - counts[name] for name in _COUNTS}
            final.more = hop.more
        return standing

    def _remember(self, index: int, fate: str, origins: Origins, books: Books) -> None:
        if not origins:
            return
        self.remaining |= origins
        if fate == "unknown":
            self.unknown |= origins
        elif fate == "lost":
            self.lost[index] |= origins
        for hop in self.way.hops[:index]:
            for route in {hop.route, ""}:
                books.sets.setdefault((hop.node, route), MergedTally()).went |= origins
        here = books.sets.setdefault((self.way.hops[index].node, ""), MergedTally())
        if fate == "dead":
            here.dead |= origins
        elif fate == "waiting":
            here.waiting |= origins

    def add(self, at: Sequence[AtHop], unknown: Origins) -> None:
        """Of a lot that is judged for good."""
        unresolved = reduce(Origins.__or__, (each.unresolved for each in at))
        self.remaining |= unresolved
        self.unknown |= unknown & unresolved
        self.lost = [some | (each.missing - unknown) for some, each in zip(self.lost, at, strict=True)]
        for final, each in zip(self.final, at, strict=True):
            for name, count in _counts(_without(each, unresolved), Origins()).items():
                final.counts[name] += count

    def follow(self, books: Books) -> Origins:
        """Takes up what became of those that remained. Returns those that are final now."""
        if not self.remaining:
            return self.remaining
        at = judged(self.way, self.remaining, books)
        unresolved = reduce(Origins.__or__, (each.unresolved for each in at))
        done = self.remaining - unresolved
        if done:
            for final, each in zip(self.final, at, strict=True):
                for name, count in _counts(_without(each, unresolved), Origins()).items():
                    final.counts[name] += count
            self.remaining = unresolved
        self.lost = [some & each.missing for some, each in zip(self.lost, at, strict=True)]
        was_unknown = bool(self.unknown)
        self.unknown = joined(each.missing - some for some, each in zip(self.lost, at, strict=True))
        if was_unknown and not self.unknown and not any(final.counts["unknown"] for final in self.final):
            # Now the nodes have said what became of all.
            self.state, self.reason = State.SETTLED, None
        return done

    def let_go(self, topic: str, books: Books) -> bool:
        """The topic was made again: its names mean other events now. What became of those before is final, as a count.
        Whether there were any."""
        own = within(self.remaining, [topic])
        for final, each in zip(self.final, judged(self.way, own, books), strict=True):
            counts = _counts(each, self.unknown)
            final.counts = {name: final.counts[name] + counts[name] for name in _COUNTS}
            final.more = {fate: final.more.get(fate, 0) + counts[fate] for fate in FATES}
        self.remaining, self.unknown = self.remaining - own, self.unknown - own
        self.lost = [some - own for some in self.lost]
        return bool(own)

    def verdict(
        self,
        books: Books,
        sla: Sla,
        times: Callable[[Node, int], Times],
        at: Sequence[AtHop] = (),
        sure: Collection[int] = (),
    ) -> MinuteVerdict:
        """`at`: what is judged for now, and not final. `sure`: the hops where nothing more will be said of it."""
        hops: list[HopVerdict] = []
        remaining = judged(self.way, self.remaining, books)
        for index, final in enumerate(self.final):
            parts = [remaining[index], *at[index : index + 1]]
            counts = [final.counts, *(_counts(part, self.unknown) for part in parts)]
            undecided = at[index].missing if at and index not in sure else Origins()
            counts.append({"lost": -len(undecided), "open": len(undecided)})
            names, more = _names(parts, self.unknown, undecided)
            hop = self.way.hops[index]
            late = times(hop.node, self.minute)
            hops.append(
                HopVerdict(
                    hop.node.kind.name,
                    hop.node.name,
                    hop.route,
                    **{name: sum(each.get(name, 0) for each in counts) for name in _COUNTS},
                    duplicates=late.duplicates,
                    lag=late.lag,
                    names=names,
                    more={fate: more.get(fate, 0) + final.more.get(fate, 0) for fate in FATES},
                )
            )
        verdict = MinuteVerdict(
            self.way.name,
            self.minute,
            self.state,
            Up.UNKNOWN,
            hops,
            self.reason,
            None,
            self.late,
            self.misdated,
            self.unanswered,
            tuple(self.lots),
        )
        return _with_up(verdict, sla)


def _without(at: AtHop, origins: Origins) -> AtHop:
    if not origins:
        return at
    sets = (at.given, at.went, at.dropped, at.dead, at.waiting, at.elsewhere, at.missing)
    return AtHop(at.hop, *(some - origins for some in sets))


def _counts(at: AtHop, unknown: Origins) -> dict[str, int]:
    not_said = len(at.missing & unknown) if at.missing and unknown else 0
    return {
        "came": len(at.given),
        "went": len(at.went),
        "elsewhere": len(at.elsewhere),
        "dropped": len(at.dropped),
        "dead": len(at.dead),
        "waiting": len(at.waiting),
        "lost": len(at.missing) - not_said,
        "unknown": not_said,
        "open": 0,
    }


def _names(
    parts: Sequence[AtHop], unknown: Origins, undecided: Origins
) -> tuple[dict[str, Sequence[str]], dict[str, int]]:
    missing = reduce(Origins.__or__, (part.missing for part in parts)) - undecided
    sets = {
        "lost": missing - unknown,
        "unknown": missing & unknown,
        "waiting": reduce(Origins.__or__, (part.waiting for part in parts)),
        "dead": reduce(Origins.__or__, (part.dead for part in parts)),
    }
    found = {fate: named(some) for fate, some in sets.items() if some}
    return {fate: names for fate, (names, _) in found.items()}, {fate: more for fate, (_, more) in found.items()}


def _with_up(verdict: MinuteVerdict, sla: Sla) -> MinuteVerdict:
    if verdict.unanswered is not None:
        return replace(verdict, up=Up.DOWN, why=f"{verdict.unanswered} did not answer")
    if verdict.state is not State.SETTLED:
        return verdict
    lost = verdict.total("lost")
    if lost:
        return replace(verdict, up=Up.DOWN, why=f"{lost:,} of {verdict.came:,} events were lost")
    missing, late = verdict.undelivered, verdict.hops[-1].lag.went
    expected = verdict.went + missing
    p95_ms = verdict.quantile_ms(0.95)
    if p95_ms is None:
        # There may be no event times at all; then only what did not arrive is against it.
        if missing and missing > expected * 0.05:
            return replace(verdict, up=Up.DOWN, why=f"{missing:,} of {expected:,} events were not delivered")
        return replace(verdict, up=Up.UP)
    if p95_ms > sla.p95_ms and late:
        return replace(verdict, up=Up.DOWN, why=f"p95 end to end was {p95_ms / 1000:,.3g} s")
    return replace(verdict, up=Up.UP)

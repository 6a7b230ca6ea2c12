"""What became of the events of a minute on one way: by name, and only as far as the nodes have said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from enrich.tally import Merged, MergedTally, Node, Origins
from enrich.tally.lags import NO_LAG, Lag
from observe_service.verdicts.ways import Hop, Way

_MINUTE_MS = 60_000


class State(StrEnum):
    OPEN = "open"
    """More may come, or a node that speaks is behind."""
    SETTLED = "settled"
    UNKNOWN = "unknown"
    """A node that should have said more has fallen silent: nothing follows from that."""


@dataclass(frozen=True)
class AtHop:
    """What became of the minute's events at one hop."""

    hop: Hop
    given: Origins
    """What came to it by this way."""
    went: Origins
    dropped: Origins
    dead: Origins
    waiting: Origins
    elsewhere: Origins
    """They took other routes only."""
    missing: Origins
    """Nothing was said of what became of them."""
    is_sure: bool
    """The node has read all that was there when the minute was due, so that what is missing is lost."""
    lag: Lag = NO_LAG


@dataclass(frozen=True)
class Verdict:
    way: Way
    minute: int
    state: State
    reason: str | None
    """Why it is not settled."""
    at: Sequence[AtHop]

    @property
    def lost(self) -> Origins:
        """By name. Of a verdict that is not settled: what is known to be lost by now."""
        found = Origins()
        for each in self.at:
            if each.is_sure:
                found |= each.missing
        return found


@dataclass(frozen=True)
class Now:
    """What is known of the nodes beside their tallies."""

    at_ms: int
    until_ms: Mapping[Node, int]
    """Up to when each has read and reported all that there was; see `Reached`."""
    settle_ms: int = 180_000
    """How long after its end events of a minute are waited for."""
    silence_ms: int = 30_000
    """A node says something every 10 s."""


def judged(way: Way, minute: int, merged: Merged, now: Now) -> Verdict:
    due_ms = (minute + 1) * _MINUTE_MS + now.settle_ms
    entry = way.hops[0]
    untold = _untold(way, minute, merged)
    given = merged.by_key.get((entry.node, "", minute), MergedTally()).known | untold
    at: list[AtHop] = []
    for hop in way.hops:
        # Where events come in all that is known of them is what that node says.
        is_sure = hop is entry or now.until_ms.get(hop.node, 0) >= due_ms
        found = _at(hop, given, untold if hop is entry else Origins(), minute, merged, is_sure=is_sure)
        at.append(found)
        given = found.went
    if now.at_ms < due_ms:
        return Verdict(way, minute, State.OPEN, "events of this minute may still come", at)
    for each in at:
        if len(each.missing) and not each.is_sure:
            heard_ms = merged.latest_ms.get(each.hop.node, 0)
            is_silent = now.at_ms - heard_ms > now.silence_ms
            state, what = (State.UNKNOWN, "is silent") if is_silent else (State.OPEN, "is behind")
            name = f"{each.hop.node.kind.name} {each.hop.node.name}"
            return Verdict(way, minute, state, f"{name} {what}: {len(each.missing):,} events are open", at)
    return Verdict(way, minute, State.SETTLED, None, at)


def _untold(way: Way, minute: int, merged: Merged) -> Origins:
    """What ingest has written and was killed before it could say so: the stage behind it knows it, and its minute."""
    if way.topic is None or len(way.hops) == 1:
        return Origins()
    entry, following = way.hops[0].node, way.hops[1].node
    known = merged.by_key.get((following, "", minute), MergedTally()).known
    own = Origins({place: some for place, some in known.by_place.items() if place[0] == way.topic})
    return own - merged.of(entry).known


def _at(hop: Hop, given: Origins, untold: Origins, minute: int, merged: Merged, *, is_sure: bool) -> AtHop:
    node = merged.of(hop.node)
    went = ((merged.of(hop.node, hop.route) if hop.route else node).went & given) | untold
    left = given - went
    elsewhere = left & node.went
    left = left - elsewhere
    dropped = left & node.dropped
    dead = (left - dropped) & node.only_dead
    waiting = (left - dropped - dead) & node.still_waiting
    lag = merged.by_key.get((hop.node, "", minute), MergedTally()).lag
    missing = left - dropped - dead - waiting
    return AtHop(hop, given, went, dropped, dead, waiting, elsewhere, missing, is_sure, lag)

"""A verdict, and its record: JSON with a key of its own for each way and minute, so that the newest one stays."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from enrich.base.errors import BadRecord
from enrich.tally.encoding import decoded_lag, encoded_lag
from enrich.tally.lags import NO_LAG, Lag
from enrich.tally.origins import Origins, text

VERSION = 1
MOST_NAMES = 2_000
"""Ranges of origins that a record names of each fate at a hop."""
OLDEST, AHEAD = 1_440, 1
"""What an event says of its time is believed within so many minutes before it came, and after."""
FATES = ("lost", "unknown", "waiting", "dead")
"""What may still change after the verdict, and is named for that reason too."""


class State(StrEnum):
    OPEN = "open"
    """More may come, or a node that speaks is behind."""
    SETTLED = "settled"
    UNKNOWN = "unknown"
    """A node that should have said more has fallen silent, or could not say it: nothing follows from that."""


class Up(StrEnum):
    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HopVerdict:
    """What became of the minute's events at one hop of the way. Counts are of origins, each of which counts once."""

    kind: str
    node: str
    route: str = ""
    came: int = 0
    went: int = 0
    elsewhere: int = 0
    """They took other routes only."""
    dropped: int = 0
    dead: int = 0
    waiting: int = 0
    lost: int = 0
    unknown: int = 0
    """The node read them, and could not say what became of them."""
    open: int = 0
    """Nothing is known of them yet, and the node may still say it."""
    duplicates: int = 0
    """How often an event went once more."""
    lag: Lag = NO_LAG
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of each fate of `FATES`: ranges of origins, topic/partition/first-last."""
    more: Mapping[str, int] = field(default_factory=dict)
    """How many origins of the fate are not named."""

    @property
    def name(self) -> str:
        return f"{self.node}.{self.route}" if self.route else self.node


@dataclass(frozen=True, slots=True)
class MinuteVerdict:
    route: str
    """The way, hop by hop."""
    minute: int
    """Whole minutes since 1970, of event time."""
    state: State
    up: Up
    hops: Sequence[HopVerdict]
    reason: str | None = None
    """Why it is not settled."""
    why: str | None = None
    """Why it is down."""
    late: int = 0
    """How many events came after the minute was due."""
    misdated: int = 0
    """How many had a time that cannot be true: they count in the minute in which they came."""
    unanswered: str | None = None
    """Who did not answer all the minute long, if it is so: then it is down, whatever became of its events."""
    lots: Sequence[int | None] = ()
    """What is in it: None, the events that came in time; and of those that came late, by the minute of their coming."""
    until_ms: int = 0
    """Lags are in it as far as they were in the topic by then."""

    @property
    def came(self) -> int:
        return self.hops[0].came

    @property
    def went(self) -> int:
        return self.hops[-1].went

    def total(self, fate: str) -> int:
        """Over all hops. Of duplicates those of the last: whoever is behind a node passes on what it repeats."""
        if fate == "duplicates":
            return self.hops[-1].duplicates
        return sum(getattr(hop, fate) for hop in self.hops)

    @property
    def undelivered(self) -> int:
        """Of those that should have gone this way to its end."""
        return self.total("lost") + self.total("dead") + self.total("waiting") + self.total("unknown")

    def quantile_ms(self, share: float) -> float | None:
        """End to end; events that were not delivered are infinitely late. None: it falls among those, or none came."""
        return self.hops[-1].lag.went.quantile(share, infinite=self.undelivered)

    def named(self, fate: str) -> tuple[Sequence[str], int]:
        """Ranges of origins, and how many origins are not named."""
        names = [name for hop in self.hops for name in hop.names.get(fate, ())]
        return names, sum(hop.more.get(fate, 0) for hop in self.hops)


def minute_text(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%MZ")


def minute_in(text: str) -> int:
    """Of what `minute_text` makes. Raises ValueError."""
    return int(datetime.fromisoformat(text).timestamp()) // 60


def require_version(version: int) -> None:
    """Raises ValueError for a record of another release."""
    if version != VERSION:
        raise ValueError(f"its version is {version}, and this release reads {VERSION}")


def unreadable(error: Exception) -> BadRecord:
    return BadRecord(
        f"a verdict cannot be read: {error}",
        next_step="another program has written it, or a newer release: see docs/observer.md",
    )


def key_of(route: str, minute: int) -> bytes:
    return f"{route}@{minute_text(minute)}".encode()


def encoded(verdict: MinuteVerdict) -> bytes:
    quantiles = {f"p{share}_ms": verdict.quantile_ms(share / 100) for share in (50, 95, 99)}
    content = {
        "version": VERSION,
        "route": verdict.route,
        "minute": minute_text(verdict.minute),
        "state": verdict.state,
        "reason": verdict.reason,
        "up": verdict.up,
        "why": verdict.why,
        "in": verdict.came,
        "out": verdict.went,
        **{
            fate: verdict.total(fate)
            for fate in ("lost", "dropped", "dead", "waiting", "unknown", "open", "duplicates")
        },
        "late": verdict.late,
        "misdated": verdict.misdated,
        **quantiles,
        "unanswered": verdict.unanswered,
        "lots": list(verdict.lots),
        "until_ms": verdict.until_ms,
        "hops": [_hop_out(hop) for hop in verdict.hops],
    }
    return json.dumps(content, separators=(",", ":")).encode()


_COUNTS = ("elsewhere", "dropped", "dead", "waiting", "lost", "unknown", "open", "duplicates")


def _hop_out(hop: HopVerdict) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": hop.kind, "node": hop.node, "in": hop.came, "out": hop.went}
    if hop.route:
        out["route"] = hop.route
    out |= {name: getattr(hop, name) for name in _COUNTS if getattr(hop, name)}
    if hop.lag:
        out["lag"] = base64.b64encode(encoded_lag(hop.lag)).decode()
    names = {fate: list(ranges) for fate, ranges in hop.names.items() if ranges}
    more = {fate: count for fate, count in hop.more.items() if count}
    return out | ({"names": names} if names else {}) | ({"more": more} if more else {})


def decoded(content: bytes) -> MinuteVerdict:
    """Raises BadRecord for whatever is no verdict of this release."""
    try:
        found = json.loads(content)
        require_version(found["version"])
        hops = [_hop_in(hop) for hop in found["hops"]]
        if not hops:
            raise ValueError("it has no hops")
        minute = minute_in(found["minute"])
        return MinuteVerdict(
            route=str(found["route"]),
            minute=minute,
            state=State(found["state"]),
            up=Up(found["up"]),
            hops=hops,
            reason=found["reason"],
            why=found["why"],
            late=int(found["late"]),
            misdated=int(found["misdated"]),
            unanswered=found["unanswered"],
            lots=[None if lot is None else int(lot) for lot in found["lots"]],
            until_ms=int(found["until_ms"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadRecord) as error:
        raise unreadable(error) from error


def _hop_in(found: Any) -> HopVerdict:
    names = {str(fate): [str(name) for name in ranges] for fate, ranges in found.get("names", {}).items()}
    for name in (name for ranges in names.values() for name in ranges):
        range_of(name)
    return HopVerdict(
        kind=str(found["kind"]),
        node=str(found["node"]),
        route=str(found.get("route", "")),
        came=int(found["in"]),
        went=int(found["out"]),
        **{name: int(found.get(name, 0)) for name in _COUNTS},
        lag=decoded_lag(base64.b64decode(found["lag"])) if "lag" in found else NO_LAG,
        names=names,
        more={str(fate): int(count) for fate, count in found.get("more", {}).items()},
    )


def with_fewer_names(verdict: MinuteVerdict) -> MinuteVerdict | None:
    """With half of its names, for a record that was too large; `more` counts the others. None: it names nothing."""
    if not any(ranges for hop in verdict.hops for ranges in hop.names.values()):
        return None
    return replace(verdict, hops=[_halved(hop) for hop in verdict.hops])


def _halved(hop: HopVerdict) -> HopVerdict:
    kept = {fate: ranges[: len(ranges) // 2] for fate, ranges in hop.names.items()}
    left_out = {fate: len(origins_of(ranges[len(kept[fate]) :])) for fate, ranges in hop.names.items()}
    more = {fate: hop.more.get(fate, 0) + left_out.get(fate, 0) for fate in {**hop.more, **left_out}}
    return replace(hop, names=kept, more=more)


def named(origins: Origins, most: int | None = MOST_NAMES) -> tuple[Sequence[str], int]:
    """Ranges of them, and how many origins are in no range."""
    ranges = [*origins.ranges(most)]
    covered = sum(last - first + 1 for _, _, first, last in ranges)
    return [text(one) for one in ranges], len(origins) - covered


def origins_of(names: Sequence[str]) -> Origins:
    """Raises BadRecord for what names none."""
    return Origins.of_ranges([range_of(name) for name in names])


def range_of(name: str) -> tuple[str, int, int, int]:
    """Of topic/partition/offset or topic/partition/first-last. Raises BadRecord."""
    try:
        topic, partition, offsets = name.rsplit("/", 2)
        first, _, last = offsets.partition("-")
        found = topic, int(partition), int(first), int(last or first)
    except ValueError:
        found = "", 0, 0, 0
    if not found[0] or not 0 <= found[1] < 2**31 or not 0 <= found[2] <= found[3] < 2**63 - 1:
        raise BadRecord(f"{name!r} names no origin", next_step="write topic/partition/offset, such as plays.raw/0/1234")
    return found

"""Which causes for alarm there are now. A missing signal is unknown: no cause by itself, and no end of one; silence
is a cause."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enrich.tally import Node, NodeKind
from enrich.verdict import MinuteVerdict, State, Up
from enrich.verdict.minute import minute_text
from enrich.verdict.ways import node_name

_CALM_MINUTES = 5
"""So many minutes in a row are fine before a cause is over: it would be said again and again."""
_MOST_MINUTES = 2_880
_SILENT_MS = 60_000
_HELD_MINUTES = 10
"""So long after it was due a minute may wait for a node before that is a cause: no alarm on loss or lag can come."""
HEADROOM = "headroom"
VERDICTS = "verdicts/"
LOSS, LAG = "loss", "lag"
AGENT = "agent"
"""The program that says how tables are."""
_SPEAKS = (NodeKind.ingest, NodeKind.expel, NodeKind.writeback)
"""These say something every 10 s. A stage without events need not."""


@dataclass(frozen=True)
class Cause:
    key: str
    """By it the same cause is known again."""
    text: str
    is_loss: bool = False
    """It is said during announced actions, too."""


@dataclass
class _Standing:
    """A cause that is there, or was a short time ago."""

    cause: Cause
    minute: int
    """The newest in which it was there, or was found."""
    calm: set[int] = field(default_factory=set)
    """Settled minutes after that, in which it was not."""

    def again(self, minute: int) -> None:
        self.minute = max(minute, self.minute)
        self.calm = {each for each in self.calm if each > self.minute}

    def noted(self, minute: int, *, is_calm: bool) -> None:
        if not is_calm:
            self.again(minute)
        elif minute > self.minute:
            self.calm.add(minute)


@dataclass
class MinuteCauses:
    """Of one way, from its settled minutes in order."""

    route: str
    loss_share: float
    p95_ms: float
    """The promise."""
    _since: dict[str, _Standing] = field(default_factory=dict)
    """By kind."""
    _lost: dict[int, int] = field(default_factory=dict)
    """By minute."""
    newest: int = 0

    def restore(self, kind: str, text: str, minute: int) -> None:
        """An alarm that is on since this minute. There may be no settled minute by which its end would be known."""
        cause = Cause(f"{kind}/{self.route}", text, is_loss=kind == LOSS)
        self._since.setdefault(kind, _Standing(cause, minute))

    def take(self, verdict: MinuteVerdict) -> None:
        if verdict.state is not State.SETTLED:
            return
        self.newest = max(self.newest, verdict.minute)
        lost, why_late = verdict.total("lost"), self._why_late(verdict)
        is_loss = lost > self.loss_share * max(verdict.came, 1)
        if is_loss:
            share = lost / max(verdict.came, 1)
            text = f"{self.route}: {lost:,} of {verdict.came:,} events of a minute are lost ({share:.2%})"
            # One that is found late is new today, whatever has gone well since its minute.
            is_new = lost > self._lost.get(verdict.minute, 0)
            found = self.newest if is_new else verdict.minute
            self._there(LOSS, Cause(f"{LOSS}/{self.route}", text, is_loss=True), found)
        elif why_late is not None:
            self._there(LAG, Cause(f"{LAG}/{self.route}", f"{self.route}: {why_late}"), verdict.minute)
        calm = {LOSS: not is_loss, LAG: why_late is None and verdict.unanswered is None}
        for kind, standing in self._since.items():
            standing.noted(verdict.minute, is_calm=calm[kind])
        self._lost[verdict.minute] = max(lost, self._lost.pop(verdict.minute, 0))
        if len(self._lost) > _MOST_MINUTES:
            del self._lost[next(iter(self._lost))]

    def now(self) -> Iterator[Cause]:
        for kind, standing in [*self._since.items()]:
            if len(standing.calm) >= _CALM_MINUTES:
                del self._since[kind]
            else:
                yield standing.cause

    def _why_late(self, verdict: MinuteVerdict) -> str | None:
        """Why it is down, or would be if it had lost nothing: a verdict that lost something says just that."""
        if verdict.up is not Up.DOWN or verdict.unanswered is not None:
            return None
        lost = verdict.total("lost")
        if not lost:
            return verdict.why
        undelivered = verdict.undelivered - lost
        expected = verdict.went + undelivered
        if undelivered > expected * 0.05:
            return f"{undelivered:,} of {expected:,} events were not delivered"
        p95_ms = verdict.hops[-1].lag.went.quantile(0.95, infinite=undelivered)
        if p95_ms is None or p95_ms <= self.p95_ms:
            return None
        return f"p95 end to end was {p95_ms / 1000:,.3g} s"

    def _there(self, kind: str, cause: Cause, minute: int) -> None:
        if (known := self._since.get(kind)) is not None:
            known.again(minute)
        elif minute > self.newest - _CALM_MINUTES:  # else it is over already
            self._since[kind] = _Standing(cause, minute)


def held_up(
    oldest: Mapping[str, tuple[int, str]], log_minute: int, settle_minutes: int, since_minute: int, on: Container[str]
) -> Iterator[Cause]:
    """Ways of which minutes are not judged, since a node is behind, has ended, or is silent. `oldest`: of each the
    minute that has waited longest, and why. `log_minute`: up to then all that nodes have said is known. Since
    `since_minute` it goes on like that; before, nobody could hear them. `on`: the keys of alarms that are on."""
    for way, (minute, reason) in oldest.items():
        key, due = f"{VERDICTS}{way}", minute + settle_minutes
        # Over only when it waits for less: one that stays just as far behind would come and go.
        since, most = (due, _HELD_MINUTES - _CALM_MINUTES) if key in on else (max(due, since_minute), _HELD_MINUTES)
        if log_minute - since > most:
            yield Cause(key, f"{way}: {minute_text(minute)} is not judged yet: {reason}")


def silences(nodes: Sequence[Node], heard_ms: Mapping[Node, int], log_ms: int, listens_ms: int) -> Iterator[Cause]:
    """`log_ms`: up to then all that nodes have said is known. `listens_ms`: since when they can be heard."""
    for node in nodes:
        since_ms = max(heard_ms.get(node, 0), listens_ms)
        if node.kind in _SPEAKS and log_ms - since_ms > _SILENT_MS:
            yield Cause(_silence(node), f"{node_name(node)} has been silent for over a minute")


def not_heard(nodes: Sequence[Node], heard_ms: Mapping[Node, int], listens_ms: int) -> Collection[str]:
    """Silences of which nothing is known: the nodes have said nothing since they can be heard."""
    return [_silence(node) for node in nodes if heard_ms.get(node, 0) < listens_ms]


def _silence(node: Node) -> str:
    return f"silence/{node.kind.name}/{node.name}"


def of_statuses(programs: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """What programs say of their routes and tables."""
    for program in programs:
        for route in program.get("routes", []):
            name, state = f"{program['name']} {route.get('name')}", route.get("state")
            if state in ("held", "stopped"):
                yield Cause(f"route/{name}", f"{name} is {state}: {route.get('last_error') or 'no reason given'}")
            breaker = (route.get("details") or {}).get("breaker")
            if breaker in ("open", "probing"):  # one request that tries it may hang, and is not the end of it
                yield Cause(f"breaker/{name}", f"{name}: the endpoint fails, its breaker is open")
        for name, table in program.get("tables", {}).items():
            if not table.get("ready", True):
                yield Cause(f"table/{name}", f"table {name} is not ready: {table.get('reason') or 'it loads'}")
            elif table.get("is_stale"):
                behind_s, bound_s = table["behind_ms"] / 1000, table["bound_ms"] / 1000
                text = f"table {name} is {behind_s:,.1f} s behind its topic, and may be {bound_s:,.1f} s"
                yield Cause(f"freshness/{name}", text)


def not_answering(programs: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """How the keys of causes begin of which nothing is known: their programs do not answer."""
    for program in programs:
        if not program["answers"]:
            yield f"route/{program['name']} "
            yield f"breaker/{program['name']} "
            yield from ("table/", "freshness/") if program["name"] == AGENT else ()


def headroom(peak_per_s: float, rating_per_s: float | None, m: int) -> Iterator[Cause]:
    """None: nobody has rated the pipeline."""
    if rating_per_s is not None and peak_per_s * m > rating_per_s:
        text = f"the peak of {peak_per_s:,.0f} events/s times {m} is above the rating of {rating_per_s:,.0f} events/s"
        yield Cause(HEADROOM, text)

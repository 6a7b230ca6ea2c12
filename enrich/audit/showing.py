"""An audit as people and programs get it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from enrich.audit.comparing import Compared
from enrich.audit.judging import AuditedHop
from enrich.tally import Origins
from enrich.verdict import minute_text
from enrich.verdict.minute import named
from enrich.verdict.showing import MOST_SHOWN
from enrich.verdict.ways import Hop, node_name

FATES = ("lost", "denied", "dropped", "elsewhere", "dead", "waiting")


def as_json(found: Compared, *, every_name: bool = False) -> dict[str, Any]:
    """`verdict`: null if there is none that is settled. `more`: how many lost origins are not named."""
    audited = found.audited
    names, more = named(audited.lost, None if every_name else MOST_SHOWN)
    settled = found.verdict if found.is_compared else None
    return {
        "route": audited.route,
        "minute": minute_text(audited.minute),
        "in": len(audited.came),
        "out": len(audited.went),
        "lost": len(audited.lost),
        "lost_origins": names,
        "more": more,
        "hops": [_hop(hop) for hop in audited.hops],
        "verdict": None if settled is None else {"in": settled.came, "lost": settled.total("lost")},
        "differences": list(found.differences),
    }


def _hop(hop: AuditedHop) -> dict[str, Any]:
    counts = {fate: len(getattr(hop, fate)) for fate in FATES}
    return {
        "kind": hop.hop.node.kind.name,
        "node": hop.hop.node.name,
        "route": hop.hop.route,
        "in": len(hop.came),
        "out": len(hop.went),
        **counts,
    }


def _hop_name(hop: Hop) -> str:
    return f"{node_name(hop.node)}, {hop.route}" if hop.route else node_name(hop.node)


@dataclass
class DaySum:
    """Of one way: the day's minutes added up, for people."""

    minutes: int = 0
    compared: int = 0
    came: int = 0
    hops: dict[str, dict[str, int]] = field(default_factory=dict)
    lost: Origins = field(default_factory=Origins)
    differences: list[str] = field(default_factory=list)

    def take(self, found: Compared) -> None:
        self.minutes += 1
        self.compared += found.is_compared
        self.came += len(found.audited.came)
        self.lost |= found.audited.lost
        for hop in found.audited.hops:
            known = self.hops.setdefault(_hop_name(hop.hop), dict.fromkeys(("came", "went", *FATES), 0))
            for name in known:
                known[name] += len(getattr(hop, name))
        at = minute_text(found.audited.minute)[11:16]
        self.differences += [f"{at}  {difference}" for difference in found.differences]


def summed(found: Iterable[Compared]) -> Mapping[str, DaySum]:
    by_way: dict[str, DaySum] = {}
    for each in found:
        by_way.setdefault(each.audited.route, DaySum()).take(each)
    return by_way


def print_day(day: str, by_way: Mapping[str, DaySum], skipped: Mapping[str, str], *, every_name: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    console = Console(highlight=False)
    for name, whole in by_way.items():
        fates = [fate for fate in FATES if fate == "lost" or any(hop[fate] for hop in whole.hops.values())]
        table = Table("node", *(Column(head, justify="right", no_wrap=True) for head in ("in", "out", *fates)))
        for node, counts in whole.hops.items():
            shown = [f"[red]{counts[f]:,}[/]" if f == "lost" and counts[f] else f"{counts[f]:,}" for f in fates]
            table.add_row(escape(node), f"{counts['came']:,}", f"{counts['went']:,}", *shown)
        console.print(f"[bold]{escape(name)}[/]  {day}: {whole.came:,} events in {whole.minutes:,} minutes")
        console.print(table)
        names, more = named(whole.lost, None if every_name else MOST_SHOWN)
        if names:
            console.print(f"lost: {escape(', '.join(names))}{f' and {more:,} more' if more else ''}")
        for difference in whole.differences:
            console.print(f"[red]differs[/] {escape(difference)}")
        if not whole.differences:
            console.print(
                f"the verdicts on {whole.compared:,} of these minutes say the same"
                if whole.compared
                else "there are no settled verdicts to compare with"
            )
    for name, why in skipped.items():
        console.print(f"[bold]{escape(name)}[/]  [yellow]not audited[/]: {escape(why)}")
    if not by_way:
        console.print(f"no events came in on {day}")

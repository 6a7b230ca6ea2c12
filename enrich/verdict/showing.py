"""A verdict as people and programs get it: the command line with `--json`, and the observer's API."""

from collections.abc import Mapping
from typing import Any

from enrich.tally.histogram import Histogram
from enrich.verdict.minute import HopVerdict, MinuteVerdict, minute_text

MOST_SHOWN = 20
"""Ranges of origins, unless all are asked for."""
_SHARES = (50, 95, 99)


def as_json(verdict: MinuteVerdict, *, every_name: bool = False) -> dict[str, Any]:
    """`more`: how many lost origins are not named."""
    names, more = verdict.named("lost")
    shown = names if every_name else names[:MOST_SHOWN]
    return {
        "route": verdict.route,
        "minute": minute_text(verdict.minute),
        "state": verdict.state,
        "reason": verdict.reason,
        "up": verdict.up,
        "why": verdict.why,
        "in": verdict.came,
        "out": verdict.went,
        "lost": verdict.total("lost"),
        "lost_origins": list(shown),
        "more": more + sum(map(_length, names[len(shown) :])),
        **{
            fate: verdict.total(fate)
            for fate in ("dropped", "elsewhere", "dead", "waiting", "unknown", "open", "duplicates")
        },
        "late": verdict.late,
        "misdated": verdict.misdated,
        **{f"p{share}_ms": verdict.quantile_ms(share / 100) for share in _SHARES},
        "hops": [_hop(hop) for hop in verdict.hops],
    }


def _hop(hop: HopVerdict) -> dict[str, Any]:
    return {
        "kind": hop.kind,
        "node": hop.node,
        "route": hop.route,
        "in": hop.came,
        "out": hop.went,
        **{
            fate: getattr(hop, fate)
            for fate in ("lost", "dropped", "elsewhere", "dead", "waiting", "unknown", "open", "duplicates")
        },
        "lag_in_ms": _quantiles(hop.lag.came),
        "lag_out_ms": _quantiles(hop.lag.went),
        "took_ms": _quantiles(hop.lag.took),
        "clamped": hop.lag.came.clamped + hop.lag.went.clamped,
    }


def _quantiles(histogram: Histogram) -> Mapping[str, float | None]:
    return {f"p{share}": histogram.quantile(share / 100) for share in _SHARES}


def _length(name: str) -> int:
    first, _, last = name.rpartition("/")[2].partition("-")
    return int(last or first) - int(first) + 1

"""How fresh the tables of a stage must be, in the form that travels to the workers."""

from collections.abc import Iterable
from dataclasses import dataclass

from enrich.config import KeyKind, OnStale, Pipeline, Table, Then

_LOADER_DEADLINE_S = 300.0


@dataclass(frozen=True)
class FreshnessRule:
    """How fresh one table must be before it answers."""

    name: str
    deadline_s: float
    """How long a worker waits for it."""
    bound_ms: int | None
    """How old its answers may be. None for a table with a loader, which has `refresh` and `expire` instead."""
    on_stale: OnStale
    then: Then
    history_ms: int = 0
    has_networks: bool = False
    """Whether its keys are networks, of which several may contain one address."""

    @property
    def is_watched(self) -> bool:
        """Whether a worker waits or fails if answers are older than the bound."""
        return self.on_stale != OnStale.mark

    @property
    def may_be_marked(self) -> bool:
        """Whether answers that are older than the bound are served in the end."""
        return self.on_stale == OnStale.mark or (self.on_stale == OnStale.wait and self.then == Then.mark)


def behind_text(behind_s: float | None) -> str:
    """How far a table is behind, for people."""
    return "never complete" if behind_s is None else f"{behind_s:.1f} s behind"


def freshness_rules(pipeline: Pipeline, names: Iterable[str]) -> tuple[FreshnessRule, ...]:
    """One rule for each table, sorted by name."""
    return tuple(_rule(name, pipeline.tables[name]) for name in sorted(set(names)))


def _rule(name: str, table: Table) -> FreshnessRule:
    if table.on_demand:
        return FreshnessRule(name, table.freshness.deadline.total_seconds(), None, OnStale.mark, Then.mark)
    if table.topic is None:
        return FreshnessRule(name, _LOADER_DEADLINE_S, None, OnStale.mark, Then.mark)
    freshness = table.freshness
    bound_ms = round(freshness.bound.total_seconds() * 1000)
    history_ms = round(table.history.total_seconds() * 1000)
    has_networks, deadline_s = table.key == KeyKind.cidr, freshness.deadline.total_seconds()
    return FreshnessRule(name, deadline_s, bound_ms, freshness.on_stale, freshness.then, history_ms, has_networks)

"""The readiness gate, and the freshness check of each task after it: no event meets a table that is not ready and fresh
enough."""

import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from enrich.base.errors import Unreachable
from enrich.config import OnStale, Then
from enrich.host.ipc.header import TableState
from enrich.host.reader.reading import AgentSnapshot
from enrich.stage.task.freshness import FreshnessRule, behind_text
from enrich.stage.task.pin import Pin
from enrich.stage.worker.pinned import behind
from stores.freshness import MarkStale, is_older
from stores.protocol import Clock, TableView

_LOOK_EVERY_S = 0.02
_MARKED_AFTER_S = 2.0
"""A short delay of agent or brokers is waited out before answers are marked as stale."""

_SAID_WITHIN_S = 2.0

Shortfall = Callable[[FreshnessRule, AgentSnapshot], str | None]
"""Why a snapshot's table is not good enough yet; None if it is."""


class SnapshotSource(Protocol):
    """The part of a reader that the gate needs."""

    def snapshot(self) -> AgentSnapshot: ...


class Gate:
    """The gate of one worker: its first task waits until all tables are complete, later ones until they are fresh
    enough."""

    def __init__(self, reader: SnapshotSource, rules: Sequence[FreshnessRule], clock: Clock) -> None:
        self._reader = reader
        self._rules = rules
        self._clock = clock
        self._came_at = clock.now_ms()
        self._is_passed = False

    def enter(self) -> AgentSnapshot:
        """The newest snapshot that is good enough. Raises Unreachable at a table's deadline."""
        snapshot = self._reader.snapshot()
        if not self._is_passed:
            snapshot = self._wait(self._not_let_in(time.monotonic()), snapshot)
            self._is_passed = True
        snapshot = self._wait(self._not_served, snapshot)
        return self._fresh(snapshot)

    def reach(self, pin: Pin, snapshot: AgentSnapshot) -> AgentSnapshot:
        """The snapshot, or a newer one, that has reached the pin's offsets in the pin's topics. Raises Unreachable at a
        table's deadline."""

        began = time.monotonic()

        def short(rule: FreshnessRule, snapshot: AgentSnapshot) -> str | None:
            pinned, header = pin.tables[rule.name], snapshot.header
            if header.tables[rule.name].topic_id is None:
                return (
                    "the host's agent does not report the topic of its rows: it is of an earlier release, or is loading"
                )
            if header.tables[rule.name].topic_id != pinned.topic_id:
                return "the rows of this host are of another topic than the batch's pin: the topic was recreated"
            # The header may have been read just before newer rows: it then need not hold for them.
            is_of_these = header.seq == snapshot.seq
            if not is_of_these and time.monotonic() - began < _SAID_WITHIN_S:
                return "the agent has not reported the topic of its newest rows yet"
            missing = behind(snapshot.views[rule.name], pinned.offsets)
            return f"{missing} records of the batch's pin are still missing" if missing else None

        return self._wait(short, snapshot)

    def shortfalls(self) -> tuple[AgentSnapshot, dict[str, str]]:
        """The current snapshot and, without waiting, the tables that are not good enough yet, with the reason."""
        snapshot = self._reader.snapshot()
        short = {rule.name: why for rule in self._rules if (why := self._not_ready(rule, snapshot)) is not None}
        return snapshot, short

    def view(self, rule: FreshnessRule, snapshot: AgentSnapshot) -> TableView:
        """A table whose rows are marked as stale once they are older than its bound."""
        view = snapshot.table(rule.name)
        return view if rule.bound_ms is None else MarkStale(view, rule.bound_ms, self._clock)

    def _wait(self, shortfall: Shortfall, snapshot: AgentSnapshot) -> AgentSnapshot:
        """Takes newer snapshots until none of the tables falls short. Raises Unreachable at a table's deadline."""
        snapshot, late = self._wait_at_most(shortfall, snapshot)
        if late is not None:
            rule, why = late
            raise _too_late(rule, why, snapshot.header.tables[rule.name], self._clock.now_ms())
        return snapshot

    def _wait_at_most(
        self, shortfall: Shortfall, snapshot: AgentSnapshot
    ) -> tuple[AgentSnapshot, tuple[FreshnessRule, str] | None]:
        """Like `_wait`, but returns the first table that misses its deadline."""
        began = time.monotonic()
        while True:
            short = {rule: why for rule in self._rules if (why := shortfall(rule, snapshot)) is not None}
            waited = time.monotonic() - began
            late = next(((rule, why) for rule, why in short.items() if waited >= rule.deadline_s), None)
            if not short or late is not None:
                return snapshot, late
            time.sleep(_LOOK_EVERY_S)
            snapshot = self._reader.snapshot()

    def _not_ready(self, rule: FreshnessRule, snapshot: AgentSnapshot) -> str | None:
        state = snapshot.header.tables[rule.name]
        if not state.ready:
            return state.reason or "it is not ready"
        if rule.bound_ms is None or (state.complete_through or 0) >= self._came_at - rule.bound_ms:
            return None
        return state.reason or "it is not complete yet"

    def _not_let_in(self, began: float) -> Shortfall:
        """Like `_not_ready`. But if the configuration allows it, rows that were complete once are served as stale while
        the brokers are down: workers that passed their gate earlier use them as well."""

        def short(rule: FreshnessRule, snapshot: AgentSnapshot) -> str | None:
            why = self._not_ready(rule, snapshot)
            state = snapshot.header.tables[rule.name]
            was_complete = state.complete_through is not None and bool(snapshot.views[rule.name].positions)
            if why is None or rule.bound_ms is None or not (rule.may_be_marked and was_complete):
                return why
            # An agent that is not complete yet may be catching up: it gets the whole deadline.
            is_at_once = state.ready and not rule.is_watched
            allowed_s = min(_MARKED_AFTER_S, rule.deadline_s) if is_at_once else rule.deadline_s
            return why if time.monotonic() - began < allowed_s else None

        return short

    @staticmethod
    def _not_served(rule: FreshnessRule, snapshot: AgentSnapshot) -> str | None:
        # Rows of a topic stay usable while their agent restarts. Rows of a loader are dropped when they expire.
        state = snapshot.header.tables[rule.name]
        served = state.ready if rule.bound_ms is None else bool(snapshot.views[rule.name].positions)
        return None if served else state.reason or "it has no rows yet"

    def _fresh(self, snapshot: AgentSnapshot) -> AgentSnapshot:
        for rule in self._rules:
            why = None if rule.on_stale == OnStale.mark else self._too_old(rule, snapshot)
            if why is None:
                continue
            if rule.on_stale == OnStale.wait:
                snapshot, late = self._wait_at_most(_only(rule, self._too_old), snapshot)
                if late is None or rule.then == Then.mark:
                    continue
            raise _too_late(rule, why, snapshot.header.tables[rule.name], self._clock.now_ms())
        return snapshot

    def _too_old(self, rule: FreshnessRule, snapshot: AgentSnapshot) -> str | None:
        through = snapshot.views[rule.name].complete_through
        if rule.bound_ms is None or not is_older(through, rule.bound_ms, self._clock.now_ms()):
            return None
        return snapshot.header.tables[rule.name].reason or "its answers are older than its bound"


def _only(rule: FreshnessRule, shortfall: Shortfall) -> Shortfall:
    """Checks this table only."""
    return lambda each, snapshot: shortfall(each, snapshot) if each is rule else None


def _too_late(rule: FreshnessRule, why: str, state: TableState, now_ms: int) -> Unreachable:
    through = state.complete_through
    lag = behind_text(None if through is None else (now_ms - through) / 1000)
    return Unreachable(
        f"the table {rule.name} is not good enough within {rule.deadline_s:g} s: {why}; {lag}",
        where=f"host {socket.gethostname()}",
        next_step="run `enrich agent status` on that host, or allow more time: tables.<name>.freshness",
    )

"""What a slot has counted since its stage's driver began. It is committed with the offsets, in one transaction: exact,
whatever is killed."""

import base64
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from enrich.stage.steps.leaving.fates import fates_of
from enrich.stage.steps.step import Columns
from enrich.stage.task.columns import LAG_REPORT, ROUTE_REPORT, USABLE
from enrich.stage.task.report import BatchReport
from enrich.stage.task.spec import REPORT
from enrich.tally.encoding import decoded_lag, encoded_lag
from enrich.tally.lags import NO_LAG, Lag

EVENTS, DROPPED, DEAD_LETTERS = "events", "dropped", "dead_letters"


@dataclass(frozen=True)
class RecentLags:
    """How late events were, in the period that has begun and in the one before it. All since the start would not fit
    into a note, once events of many hours have come."""

    period: int = 0
    now: Lag | None = NO_LAG
    """None: there was no room for it, nor is there for more of this period."""
    before: Lag | None = NO_LAG

    def __add__(self, lag: Lag) -> "RecentLags":
        return self if self.now is None else replace(self, now=self.now + lag)

    def next_period(self) -> "RecentLags":
        return RecentLags(self.period + 1, before=self.now)

    def since(self, earlier: "RecentLags") -> Lag:
        """What was seen after that; complete, if somebody asks at least once in each period."""
        if self.period == earlier.period:
            return _less(self.now, earlier.now)
        rest = self.before or NO_LAG
        if self.period == earlier.period + 1:
            rest = _less(self.before, earlier.now)
        return rest + (self.now or NO_LAG)


def _less(lag: Lag | None, earlier: Lag | None) -> Lag:
    return NO_LAG if lag is None or earlier is None else lag - earlier


@dataclass
class Counts:
    """Of one slot."""

    numbers: Counter[str] = field(default_factory=Counter)
    """By `EVENTS`, `DROPPED`, `DEAD_LETTERS`."""
    routes: Counter[str] = field(default_factory=Counter)
    """Events that took each route."""
    statuses: list[list[int]] = field(default_factory=list)
    """See `BatchReport.statuses`."""
    took_s: float = 0.0
    waited_s: float = 0.0
    newest: BatchReport | None = None
    lags: RecentLags = field(default_factory=RecentLags)
    is_whole: bool = True
    """False: there was no room for `routes` and `statuses`. They are counted, and may be told again."""

    def add(self, columns: Columns) -> None:
        """A piece, after all steps."""
        count = len(columns[USABLE])
        if not count:
            return
        dropped, dead = fates_of(columns)
        self.numbers.update(
            {EVENTS: count, DROPPED: int(np.count_nonzero(dropped)), DEAD_LETTERS: int(np.count_nonzero(dead))}
        )
        if ROUTE_REPORT in columns:
            self.routes.update(json.loads(columns[ROUTE_REPORT][0].as_py()))
        if f"_{REPORT}" in columns:
            self._add_report(BatchReport.parse(columns[f"_{REPORT}"][0].as_py()))
        self.lags += decoded_lag(base64.b64decode(columns[LAG_REPORT][0].as_py()))

    def since(self, earlier: "Counts") -> "Counts":
        """What was counted after that. Of routes and statuses only if both have room for them: a slot that goes on from
        counts without begins at zero."""
        before = earlier.statuses or [[0] * len(each) for each in self.statuses]
        pairs = zip(self.statuses, before, strict=False)
        are_whole = self.is_whole and earlier.is_whole
        return Counts(
            self.numbers - earlier.numbers,
            self.routes - earlier.routes if are_whole else Counter(),
            [[max(0, a - b) for a, b in zip(*each, strict=True)] for each in pairs] if are_whole else [],
            self.took_s - earlier.took_s,
            self.waited_s - earlier.waited_s,
            self.newest,
            RecentLags(now=self.lags.since(earlier.lags)),
        )

    @property
    def report(self) -> BatchReport | None:
        """As one report of a worker; None without lookups."""
        if self.newest is None:
            return None
        took_s, waited_s = max(0.0, self.took_s), max(0.0, self.waited_s)
        return replace(self.newest, statuses=self.statuses, took_s=took_s, waited_s=waited_s)

    def _add_report(self, report: BatchReport) -> None:
        if self.statuses:
            pairs = zip(self.statuses, report.statuses, strict=True)
            self.statuses = [[a + b for a, b in zip(*each, strict=True)] for each in pairs]
        else:
            self.statuses = [[*each] for each in report.statuses]
        self.took_s += report.took_s
        self.waited_s += report.waited_s
        self.newest = report

    def to_wire(self) -> Mapping[str, object]:
        newest = self.newest
        return {
            "n": dict(self.numbers),
            "r": dict(self.routes),
            "s": self.statuses,
            "t": [round(self.took_s, 4), round(self.waited_s, 4)],
            "w": None if newest is None else [newest.host, dict(newest.ages_s), newest.memory],
            "p": self.lags.period,
            "l": _lag_to_wire(self.lags.now),
            "b": _lag_to_wire(self.lags.before),
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, object]) -> "Counts":
        content: Mapping[str, Any] = wire
        took_s, waited_s = content["t"]
        made = cls(Counter(content["n"]), Counter(content["r"]), content["s"], took_s, waited_s)
        if content["w"] is not None:
            host, ages, memory = content["w"]
            made.newest = BatchReport(host, [], ages, 0.0, 0.0, memory)
        made.is_whole = bool(content.get("whole", True))
        made.lags = RecentLags(int(content["p"]), _lag_of_wire(content["l"]), _lag_of_wire(content["b"]))
        return made


def _lag_to_wire(lag: Lag | None) -> str | None:
    return None if lag is None else base64.b64encode(encoded_lag(lag)).decode("ascii")


def _lag_of_wire(text: str | None) -> Lag | None:
    return None if text is None else decoded_lag(base64.b64decode(text))

"""What the verdicts say of each day, a cell a minute: the verdicts themselves would take a hundred times as much."""

import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from enrich.verdict import Day, State, Up, day_of
from enrich.verdict.days import PER_DAY
from enrich.verdict.summary import Summary

_CODES = {Up.UP: 1, Up.DOWN: 2, Up.UNKNOWN: 3}
_UPS = {code: up for up, code in _CODES.items()}


def _numbers() -> "array[int]":
    return array("q", bytes(8 * PER_DAY))


@dataclass
class _Cells:
    up: bytearray = field(default_factory=lambda: bytearray(PER_DAY))
    """0: no verdict."""
    lost: "array[int]" = field(default_factory=_numbers)
    came: "array[int]" = field(default_factory=_numbers)
    p95_ms: "array[float]" = field(default_factory=lambda: array("f", [-1.0]) * PER_DAY)


class History:
    """By way and day. For several threads."""

    def __init__(self, keep_days: int) -> None:
        self._keep_days = keep_days
        self._days: dict[tuple[str, int], _Cells] = {}
        self._lock = threading.Lock()

    def take(self, summaries: Iterable[Summary]) -> None:
        with self._lock:
            for summary in summaries:
                self._take(summary)
            newest = max((day for _, day in self._days), default=0)
            for key in [key for key in self._days if key[1] < newest - self._keep_days]:
                del self._days[key]

    def cells(self, route: str, day: int) -> Mapping[str, Sequence[float]] | None:
        """Of each minute of the day. None: there is no verdict on it."""
        with self._lock:
            found = self._days.get((route, day))
            if found is None:
                return None
            p95 = [round(value, 1) for value in found.p95_ms]
            return {"up": list(found.up), "lost": list(found.lost), "in": list(found.came), "p95_ms": p95}

    def day(self, route: str, day: int) -> Day:
        with self._lock:
            found = self._days.get((route, day))
            up = b"" if found is None else bytes(found.up)
        return day_of((day * PER_DAY + at, _UPS[code]) for at, code in enumerate(up) if code)

    def days(self, route: str) -> Sequence[int]:
        with self._lock:
            return sorted(day for name, day in self._days if name == route)

    def peak(self, entries: Sequence[Sequence[str]], since_minute: int) -> int:
        """Most events that came in within a minute, at all entries together. `entries`: of each the ways over which its
        events go. It begins with the day of that minute."""
        with self._lock:
            days = {day for _, day in self._days if day >= since_minute // PER_DAY}
            return max((self._peak_of_day(entries, day) for day in days), default=0)

    def _peak_of_day(self, entries: Sequence[Sequence[str]], day: int) -> int:
        whole = np.zeros(PER_DAY, np.int64)
        for names in entries:
            found = [cells.came for name in names if (cells := self._days.get((name, day))) is not None]
            if found:
                whole += np.max([np.frombuffer(came, np.int64) for came in found], axis=0)
        return int(whole.max())

    def _take(self, summary: Summary) -> None:
        day, at = divmod(summary.minute, PER_DAY)
        cells = self._days.get((summary.route, day))
        if cells is None:
            cells = self._days[summary.route, day] = _Cells()
        # Of a minute that is still open nothing follows yet.
        is_open = summary.state is State.OPEN and summary.up is Up.UNKNOWN
        cells.up[at] = 0 if is_open else _CODES[summary.up]
        cells.lost[at], cells.came[at] = summary.lost, summary.came
        cells.p95_ms[at] = -1.0 if summary.p95_ms is None else summary.p95_ms

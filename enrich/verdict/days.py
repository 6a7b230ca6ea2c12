"""How available a way was on a day: which of its minutes were up, in nines."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from enrich.verdict.minute import Up

PER_DAY = 1_440


@dataclass(frozen=True, slots=True)
class Day:
    """Of the minutes that are judged: those to come, and those that nobody watched, are not in it."""

    up: int = 0
    down: Sequence[int] = ()
    """The minutes, since 1970, that failed."""
    unknown: Sequence[int] = ()

    @property
    def share(self) -> float | None:
        """Of the minutes that are up or down. None: there are none. An unknown minute is no evidence of either."""
        known = self.up + len(self.down)
        return self.up / known if known else None


def day_of(minutes: Iterable[tuple[int, Up]]) -> Day:
    found = sorted(minutes)
    return Day(
        sum(up is Up.UP for _, up in found),
        [minute for minute, up in found if up is Up.DOWN],
        [minute for minute, up in found if up is Up.UNKNOWN],
    )


def nines(down: int) -> int:
    """Of a whole day with so many minutes down: how many nines it has. One is 99.93 %, which is three; two are 99.86 %,
    which is two. 9, as many as are ever said, if none is down."""
    if down <= 0:
        return 9
    return max(0, math.floor(-math.log10(down / PER_DAY) + 1e-9))

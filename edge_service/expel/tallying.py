"""What a route says of its events: which it delivered, which wait in a retry topic, which are dead letters."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from edge_service.expel.events import Became, Event
from enrich.delivery.plan import Advance
from enrich.tally import Lags, Origins, Tally
from enrich.tally.origins import Place, Read, bitmap_of
from enrich.tally.writing import Reporter

Settled = tuple[Sequence[Event], float]
"""Events, and when they were settled, on the loop's clock."""


class Tallying:
    """Between the loop, which notes, and the route's thread, which takes what it will commit, and reports it."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._noted: list[Settled] = []
        self._taken: list[Settled] = []

    # With the sink's lock.

    def note(self, events: Sequence[Event], now_s: float) -> None:
        self._noted.append((events, now_s))

    def take(self) -> None:
        """What is noted is now in the positions that are committed next."""
        self._taken += self._noted
        self._noted = []

    # On the route's thread.

    def report(self, advances: Sequence[Advance], loop_s: float) -> None:
        """Waits a moment for the acknowledgement: what is committed after this is not read again."""
        taken, self._taken = self._taken, []
        reads = [Read(each.topic, each.number, each.first, each.following) for each in advances]
        if taken or reads:
            self._reporter.report(tallies_of(taken, time.time() - loop_s), reads)
            self._reporter.is_said()


def tallies_of(settled: Iterable[Settled], since_1970_s: float) -> Sequence[Tally]:
    """`since_1970_s`: what the loop's clock has to be moved by."""
    offsets: dict[Became, defaultdict[bytes, list[int]]] = {one: defaultdict(list) for one in Became}
    times: dict[tuple[bool, bool], list[tuple[int, int, float, float]]] = defaultdict(list)
    for events, went_s in settled:
        for event in events:
            became = event.became
            offsets[became][event.origin_place].append(event.origin)
            came, left = event.is_first_read, became is Became.went
            if came or left:  # of one that comes back the arrival was told before
                time_ms = event.event_time_ms
                row = (0, 0) if time_ms is None else (time_ms, 1)
                times[came, left].append((*row, event.came_s, went_s))
    sets = {became: _origins(by_place) for became, by_place in offsets.items()}
    went, waits, dead = sets[Became.went], sets[Became.waits], sets[Became.dead]
    lags = Lags()
    for (came, left), rows in times.items():
        lags += _lags(rows, since_1970_s, came=came, went=left)
    of_lags = [Tally(minute=minute, lag=lag) for minute, lag in lags.by_minute.items() if minute is not None]
    whole = Tally(came=went | waits | dead, went=went, waiting=waits, dead=dead, lag=lags.of_minute(None))
    return [whole, *of_lags] if whole.came else []


def _origins(by_place: Mapping[bytes, list[int]]) -> Origins:
    return Origins({_place(place): bitmap_of(offsets) for place, offsets in by_place.items()})


@cache
def _place(place: bytes) -> Place:
    topic, _, partition = place.decode().rpartition("/")
    return topic, int(partition)


def _lags(rows: list[tuple[int, int, float, float]], since_1970_s: float, *, came: bool, went: bool) -> Lags:
    times, known, came_s, went_s = zip(*rows, strict=True)
    return Lags.of(
        times,
        [round((each + since_1970_s) * 1000) for each in came_s] if came else None,
        [round((each + since_1970_s) * 1000) for each in went_s] if went else None,
        [each == 1 for each in known],
    )

"""What a route says of its events: which it delivered, which wait in a retry topic, which are dead letters."""

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from edge_service.expel.lane.events import NO_TIME, Became, Event
from enrich.delivery.plan import Advance
from enrich.tally import Lags, Origins, Tally
from enrich.tally.origins import Place, Read
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
        """The same was done with all of them."""
        if events:
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


def tallies_of(settled: Sequence[Settled], since_1970_s: float) -> Sequence[Tally]:
    """`since_1970_s`: what the loop's clock has to be moved by. In columns: a look at each event costs as much as it
    takes to send one."""
    events = [event for some, _ in settled for event in some]
    if not events:
        return []
    counts = [len(some) for some, _ in settled]
    became = np.repeat(np.array([some[0].became for some, _ in settled]), counts)
    went_ms = np.repeat(_ms([went_s for _, went_s in settled], since_1970_s), counts)
    came_ms = _ms([event.came_s for event in events], since_1970_s)
    times = np.array([event.event_time_ms for event in events], np.int64)
    # Of one that comes back the arrival was told before.
    came = np.array([event.lease.route_topic is None for event in events])
    went = became == Became.went
    known = times != NO_TIME
    lags = Lags()
    for chosen, has_come, has_gone in (
        (came & went, True, True),
        (came & ~went, True, False),
        (~came & went, False, True),
    ):
        if chosen.any():
            came_then, went_then = (
                column[chosen] if has else None for column, has in ((came_ms, has_come), (went_ms, has_gone))
            )
            lags += Lags.of(times[chosen], came_then, went_then, known[chosen])
    sets = _sets(events, became)
    of_lags = [Tally(minute=minute, lag=lag) for minute, lag in lags.by_minute.items() if minute is not None]
    all_of_them = sets[Became.went] | sets[Became.waits] | sets[Became.dead]
    whole = Tally(
        came=all_of_them,
        went=sets[Became.went],
        waiting=sets[Became.waits],
        dead=sets[Became.dead],
        lag=lags.of_minute(None),
    )
    return [whole, *of_lags]


def _ms(moments_s: Sequence[float], since_1970_s: float) -> npt.NDArray[np.int64]:
    return np.rint((np.array(moments_s) + since_1970_s) * 1000).astype(np.int64)


def _sets(events: Sequence[Event], became: npt.NDArray[np.int64]) -> Mapping[Became, Origins]:
    offsets = np.array([event.origin for event in events], np.int64)
    places = [event.origin_of or event.origin_place for event in events]
    numbers = {place: number for number, place in enumerate(set(places))}
    place_of = np.array([numbers[place] for place in places]) if len(numbers) > 1 else np.zeros(len(places), np.int64)
    found: dict[Became, Origins] = {}
    for one in Became:
        mine = became == one
        by_place = {_place(name): offsets[mine & (place_of == number)] for name, number in numbers.items()}
        found[one] = Origins.of_places(by_place)
    return found


@lru_cache(10_000)
def _place(place: bytes) -> Place:
    topic, _, partition = place.decode().rpartition("/")
    return topic, int(partition)

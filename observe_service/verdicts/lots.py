"""Which events are judged together: those of an entry and a minute that came in time, and those that came late.

By when the brokers had the word of an entry is it decided which, so that every observer decides the same.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroaring import BitMap64

from enrich.tally import NO_MINUTE, Node, Origins, minute_of
from enrich.tally.origins import MOST_OFFSET, Place
from enrich.verdict.minute import AHEAD, OLDEST
from observe_service.verdicts.books import above, without

MINUTE_MS = 60_000
_PATIENCE_MS, _TOPS_EVERY_MS = 3_600_000, 60_000


class LotKey(NamedTuple):
    entry: Node
    minute: int
    late: int | None
    """The minute in which it came, if it came late."""


@dataclass(slots=True)
class Lot:
    key: LotKey
    due_ms: int
    """From then on nothing comes to it any more."""
    first_ms: int
    """When the brokers had the first word of it."""
    origins: Origins = field(default_factory=Origins)
    """By the word of the node where they came in; once it is settled, of the node behind it too."""
    mentioned: Origins = field(default_factory=Origins)
    """By the node behind it; the entry may still do so."""
    misdated: int = 0


class Lots:
    """Each origin is in one lot at most, whatever is said again."""

    def __init__(self, settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self.open: dict[LotKey, Lot] = {}
        self.first_minute = -MOST_OFFSET
        """Minutes before it are nobody's: there was no observer."""
        self.judged: dict[tuple[Node, int], set[int | None]] = {}
        """Lots that are in a verdict already, by entry and minute."""
        self._placed = Origins()
        self._tops: dict[Place, deque[tuple[int, int]]] = {}
        """Of each place the offset behind the last one that somebody has told of, once a minute, with the time."""
        self._floors: dict[Place, int] = {}
        """All below is placed, too."""

    def due_ms(self, minute: int) -> int:
        return (minute + 1) * MINUTE_MS + self._settle_ms

    def told(self, entry: Node, minute: int | None, origins: Origins, at_ms: int) -> None:
        """`at_ms`: when the brokers had it."""
        fresh = self._fresh(origins)
        if not fresh:
            return
        self._placed |= fresh
        lot = self._lot(entry, minute, at_ms, len(fresh))
        if lot is not None:
            lot.origins |= fresh

    def mentioned(self, entry: Node, minute: int | None, origins: Origins, at_ms: int) -> None:
        """The node behind the entry knows of them. Whether the entry says so itself is seen when they are due."""
        fresh = self._fresh(origins)
        lot = self._lot(entry, minute, at_ms, 0) if fresh else None
        if lot is not None:
            lot.mentioned |= fresh

    def settle(self, lot: Lot) -> Origins:
        """To be called once it is due: what was only mentioned is of this lot now. Returns it: the entry was killed
        before it could say so."""
        untold, lot.mentioned = self._fresh(lot.mentioned), Origins()
        lot.origins |= untold
        self._placed |= untold
        return untold

    def minute_begins(self, entry: Node, minute: int) -> None:
        """A minute without events has a verdict, too."""
        key = LotKey(entry, minute, None)
        if key not in self.open and None not in self.judged.get((entry, minute), ()):
            self.open[key] = Lot(key, self.due_ms(minute), minute * MINUTE_MS)

    def close(self, lot: Lot) -> None:
        del self.open[lot.key]
        self.judged.setdefault((lot.key.entry, lot.key.minute), set()).add(lot.key.late)

    def floors(self, now_ms: int) -> Mapping[Place, int]:
        """Of each place: below it all is placed, and nothing is open. It is remembered by this number alone."""
        opened = self._opened()
        for place in {*self._placed.by_place, *self._floors}:
            floor = self._first_gap(place, now_ms)
            some = opened.by_place.get(place)
            self._floors[place] = floor if some is None else min(floor, some.min())
        self._placed = above(self._placed, self._floors)
        return {**self._floors}

    def placed(self) -> Origins:
        """Above the floors, without what is open: an observer that goes on judges that itself."""
        return self._placed - self._opened()

    def place(self, floors: Mapping[Place, int], placed: Origins) -> None:
        """They are in verdicts already: nothing that is said of them makes a new one."""
        for place, floor in floors.items():
            self._floors[place] = max(self._floors.get(place, 0), floor)
        self._placed = above(self._placed | placed, self._floors)

    def _opened(self) -> Origins:
        found = Origins()
        for lot in self.open.values():
            found |= lot.origins | lot.mentioned
        return found

    def _first_gap(self, place: Place, now_ms: int) -> int:
        """The first offset that nobody has told of. Whoever is to tell of it may be slower than others, or behind;
        after an hour it is nobody's: the marker of a transaction, or a record of somebody else."""
        floor, some = self._floors.get(place, 0), self._placed.by_place.get(place)
        tops = self._tops.setdefault(place, deque())
        if some is not None and (not tops or now_ms >= tops[-1][0] + _TOPS_EVERY_MS):
            tops.append((now_ms, some.max() + 1))
        while tops and tops[0][0] <= now_ms - _PATIENCE_MS:
            floor = max(floor, tops.popleft()[1])
        for _, _, first, last in above(Origins({place: some or BitMap64()}), {place: floor}).ranges():
            if first > floor:
                break
            floor = last + 1
        return floor

    def forget_topic(self, topic: str) -> None:
        """It was made again: its offsets begin anew."""
        self._placed = Origins({place: some for place, some in self._placed.by_place.items() if place[0] != topic})
        for by_place in (self._floors, self._tops):
            for place in [place for place in by_place if place[0] == topic]:
                del by_place[place]
        for lot in self.open.values():
            lot.origins, lot.mentioned = without(lot.origins, topic), without(lot.mentioned, topic)

    def from_ms(self, now_ms: int) -> int:
        """When the brokers had the first word of anything that is open."""
        return min((lot.first_ms for lot in self.open.values()), default=now_ms)

    def forget_minutes(self, before: int) -> Iterator[int]:
        for key in [key for key in self.judged if key[1] < before]:
            del self.judged[key]
            yield key[1]

    def _fresh(self, origins: Origins) -> Origins:
        return above(origins, self._floors) - self._placed

    def _lot(self, entry: Node, minute: int | None, at_ms: int, count: int) -> Lot | None:
        """None: it is in a verdict already."""
        came = minute_of(at_ms)
        is_misdated = minute is not NO_MINUTE and not came - OLDEST <= minute <= came + AHEAD
        minute = came if minute is NO_MINUTE or is_misdated else minute
        late = came if at_ms > self.due_ms(minute) else None
        if minute < self.first_minute or late in self.judged.get((entry, minute), ()):
            return None
        key = LotKey(entry, minute, late)
        lot = self.open.get(key)
        if lot is None:
            due_ms = self.due_ms(minute if late is None else late)
            lot = self.open[key] = Lot(key, due_ms, at_ms)
        lot.first_ms = min(lot.first_ms, at_ms)
        lot.misdated += count if is_misdated else 0
        return lot

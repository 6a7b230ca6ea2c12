"""Which events are judged together: those of an entry and a minute that came in time, and those that came late.

By when the brokers had the word of an entry is it decided which, so that every observer decides the same.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroaring import BitMap64

from enrich.tally import NO_MINUTE, Node, Origins, minute_of
from enrich.tally.origins import MOST_OFFSET, Place, joined
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
    """When the brokers had the first word of it, of the entry or of the node behind it."""
    origins: Origins = field(default_factory=Origins)
    """By the word of the node where they came in; once it is settled, of the node behind it too."""
    mentioned: Origins = field(default_factory=Origins)
    """By the node behind it; the entry may still do so."""
    misdated: Origins = field(default_factory=Origins)
    """Those of them whose time cannot be true: how late they were counts in no minute."""

    @property
    def dated(self) -> Origins:
        return self.origins - self.misdated


@dataclass(slots=True)
class Placed:
    """The origins of an entry that are in a lot, or were."""

    origins: Origins = field(default_factory=Origins)
    """Above the floors."""
    floors: dict[Place, int] = field(default_factory=dict)
    """All below is placed, too."""
    _tops: dict[Place, deque[tuple[int, int]]] = field(default_factory=dict)
    """Of each place the offset behind the last one that somebody has told of, once a minute, with the time."""

    def fresh(self, origins: Origins) -> Origins:
        return above(origins, self.floors) - self.origins

    def restore(self, floors: Mapping[Place, int], origins: Origins) -> None:
        for place, floor in floors.items():
            self.floors[place] = max(self.floors.get(place, 0), floor)
        self.origins = above(self.origins | origins, self.floors)

    def raise_floors(self, opened: Origins, now_ms: int, ends: Mapping[Place, int]) -> None:
        """`opened`: what is in lots that are open stays above them."""
        for place in {*self.origins.by_place, *self.floors}:
            floor, some = self._first_gap(place, now_ms, ends.get(place, MOST_OFFSET)), opened.by_place.get(place)
            self.floors[place] = floor if some is None else min(floor, some.min())
        self.origins = above(self.origins, self.floors)

    def forget_topic(self, topic: str) -> None:
        self.origins = without(self.origins, topic)
        for by_place in (self.floors, self._tops):
            for place in [place for place in by_place if place[0] == topic]:
                del by_place[place]

    def _first_gap(self, place: Place, now_ms: int, end: int) -> int:
        """The first offset that nobody has told of. Whoever is to tell of it may be slower than others, or behind;
        after an hour it is nobody's: the marker of a transaction, or a record of somebody else.

        Beyond the end are only those of a topic before it was made again, of which a node has told late."""
        floor, some = self.floors.get(place, 0), self.origins.by_place.get(place)
        tops = self._tops.setdefault(place, deque())
        if some is not None and (not tops or now_ms >= tops[-1][0] + _TOPS_EVERY_MS):
            tops.append((now_ms, min(some.max() + 1, end)))
        while tops and tops[0][0] <= now_ms - _PATIENCE_MS:
            floor = max(floor, tops.popleft()[1])
        for _, _, first, last in above(Origins({place: some or BitMap64()}), {place: floor}).ranges():
            if first > floor:
                break
            floor = last + 1
        return floor


class Lots:
    """Each origin is in one lot of an entry at most, whatever is said again. Two entries may read the same topic."""

    def __init__(self, settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self.open: dict[LotKey, Lot] = {}
        self._of_minute: dict[int, dict[LotKey, Lot]] = {}
        """The same by minute."""
        self.first_minute = -MOST_OFFSET
        """Minutes before it are nobody's: there was no observer."""
        self.next_minute = -MOST_OFFSET
        """Of minutes before it all that came in time was judged by an observer before this one, or is nobody's, since
        they were under way when the first one began."""
        self.judged: dict[tuple[Node, int], set[int | None]] = {}
        """Lots that are in a verdict already, by entry and minute."""
        self._closed: dict[tuple[Node, int], set[int | None]] = {}
        """Those of them that were judged here: all that came in time was read."""
        self.known_ms = 0
        """Up to then all that was said is read, by the brokers' time."""
        self.placed: dict[Node, Placed] = {}
        self._early: dict[Node, list[tuple[int, Origins]]] = {}
        """What the node behind an entry has said, and when, of events whose lot was judged without them: the entry has
        told of them late, and is heard once more."""

    def due_ms(self, minute: int) -> int:
        return (minute + 1) * MINUTE_MS + self._settle_ms

    def told(self, entry: Node, minute: int | None, origins: Origins, at_ms: int) -> None:
        """`at_ms`: when the brokers had it."""
        placed = self._placed_of(entry)
        fresh = placed.fresh(origins)
        if again := origins - fresh:
            self._take_back(entry, minute, again, at_ms)
        if not fresh:
            return
        placed.origins |= fresh
        lot = self._lot(entry, minute, at_ms, fresh)
        if lot is not None:
            lot.origins |= fresh
            before = [(other.first_ms, other.mentioned) for other in self.of_minute(lot.key.minute)]
            for first_ms, some in (*before, *self._early.get(entry, ())):
                if first_ms < lot.first_ms and some & fresh:
                    lot.first_ms = first_ms

    def _take_back(self, entry: Node, minute: int | None, origins: Origins, at_ms: int) -> None:
        """What the entry says once more, as of a dead letter that is processed again, may be read before what it said
        first. The first word counts, whoever reads them in which order."""
        own, late, is_misdated = self._dated(minute, at_ms)
        if minute is NO_MINUTE or is_misdated:
            later = [lot for lot in self.open.values() if lot.key.late is None and lot.key.minute > own]
        else:
            later = [lot for lot in self.of_minute(own) if lot.key.late is not None and lot.key.late > (late or 0)]
        for other in later:
            if other.key.entry == entry and (again := other.origins & origins):
                other.origins -= again
                other.misdated -= again
                if (lot := self._lot(entry, minute, at_ms, again)) is not None:  # else it is in a verdict already
                    lot.origins |= again

    def mentioned(self, entry: Node, minute: int | None, origins: Origins, at_ms: int) -> None:
        """The node behind the entry knows of them. Whether the entry says so itself is seen when they are due."""
        fresh = self._placed_of(entry).fresh(origins)
        lot = self._lot(entry, minute, at_ms, Origins()) if fresh else None
        if lot is not None:
            lot.mentioned |= fresh
        elif fresh:
            self._early.setdefault(entry, []).append((at_ms, fresh))
        if minute is not None:  # the entry has said it much later, and was heard before
            for other in self.of_minute(minute):
                if other.key.entry == entry and at_ms < other.first_ms and other.origins & origins:
                    other.first_ms = at_ms

    def fresh(self, entry: Node, origins: Origins) -> Origins:
        """Those of which the entry, or the node behind it, has not told yet."""
        placed = self.placed.get(entry)
        return origins if placed is None else placed.fresh(origins)

    def settle(self, lot: Lot) -> Origins:
        """To be called once it is due: what was only mentioned is of this lot now. Returns it: the entry was killed
        before it could say so."""
        placed = self._placed_of(lot.key.entry)
        untold, lot.mentioned = placed.fresh(lot.mentioned), Origins()
        lot.origins |= untold
        placed.origins |= untold
        return untold

    def minute_begins(self, entry: Node, minute: int) -> None:
        """A minute without events has a verdict, too."""
        key = LotKey(entry, minute, None)
        if key not in self.open and None not in self.judged.get((entry, minute), ()):
            self._begin(Lot(key, self.due_ms(minute), minute * MINUTE_MS))

    def of_minute(self, minute: int) -> Collection[Lot]:
        """Those that are open."""
        return self._of_minute.get(minute, {}).values()

    def drop(self, lot: Lot) -> None:
        """As if it had never been."""
        del self.open[lot.key]
        own = self._of_minute[lot.key.minute]
        del own[lot.key]
        if not own:
            del self._of_minute[lot.key.minute]

    def close(self, lot: Lot) -> None:
        self.drop(lot)
        for known in (self.judged, self._closed):
            known.setdefault((lot.key.entry, lot.key.minute), set()).add(lot.key.late)

    def raise_floors(self, now_ms: int, ends: Mapping[Place, int]) -> None:
        """Of each place: below it all is placed, and nothing is open. It is remembered by this number alone. `ends`:
        up to where all could be told of by now, as far as that is known."""
        for entry, placed in self.placed.items():
            placed.raise_floors(self._opened(entry), now_ms, ends)
            if early := self._early.pop(entry, None):
                self._early[entry] = [each for each in early if placed.fresh(each[1])]

    def checkpoint(self) -> Mapping[Node | None, tuple[Mapping[Place, int], Origins]]:
        """Of each entry the floors, and what is placed above them, without what is open: an observer that goes on
        judges that itself."""
        return {
            entry: ({**placed.floors}, placed.origins - self._opened(entry)) for entry, placed in self.placed.items()
        }

    def restore(self, entry: Node, floors: Mapping[Place, int], origins: Origins) -> None:
        """They are in verdicts already: nothing that is said of them makes a new one."""
        self._placed_of(entry).restore(floors, origins)

    def forget_topic(self, topic: str) -> None:
        """It was made again: its offsets begin anew."""
        self._early.clear()
        for placed in self.placed.values():
            placed.forget_topic(topic)
        for lot in self.open.values():
            lot.origins, lot.mentioned = without(lot.origins, topic), without(lot.mentioned, topic)
            lot.misdated = without(lot.misdated, topic)

    def _placed_of(self, entry: Node) -> Placed:
        return self.placed.setdefault(entry, Placed())

    def _opened(self, entry: Node) -> Origins:
        return joined(lot.origins | lot.mentioned for lot in self.open.values() if lot.key.entry == entry)

    def _begin(self, lot: Lot) -> Lot:
        self.open[lot.key] = self._of_minute.setdefault(lot.key.minute, {})[lot.key] = lot
        return lot

    def from_ms(self, now_ms: int) -> int:
        """When the brokers had the first word of anything that is open."""
        return min((lot.first_ms for lot in self.open.values()), default=now_ms)

    def forget_minutes(self, before: int) -> None:
        for key in [key for key in self.judged if key[1] < before]:
            del self.judged[key]
            self._closed.pop(key, None)

    def _lot(self, entry: Node, minute: int | None, at_ms: int, origins: Origins) -> Lot | None:
        """`origins`: those of which its node tells. None: it is in a verdict already."""
        said = minute
        minute, late, is_misdated = self._dated(minute, at_ms)
        if minute < self.first_minute or (late is None and minute < self.next_minute):
            return None
        if late in self.judged.get((entry, minute), ()):
            if at_ms >= self.known_ms or late not in self._closed.get((entry, minute), ()):
                return None
            # It is said for the first time, and should be known: the clock of a broker is behind that of others.
            return self._lot(entry, said, self.known_ms, origins)
        key = LotKey(entry, minute, late)
        lot = self.open.get(key)
        if lot is None:
            due_ms = self.due_ms(minute if late is None else late)
            lot = self._begin(Lot(key, due_ms, at_ms))
        lot.first_ms = min(lot.first_ms, at_ms)
        lot.misdated |= origins if is_misdated else Origins()
        return lot

    def _dated(self, minute: int | None, at_ms: int) -> tuple[int, int | None, bool]:
        """The minute in which it counts, the one of its coming if that is late, and whether its own cannot be true."""
        came = minute_of(at_ms)
        is_misdated = minute is not NO_MINUTE and not came - OLDEST <= minute <= came + AHEAD
        minute = came if minute is NO_MINUTE or is_misdated else minute
        return minute, came if at_ms > self.due_ms(minute) else None, is_misdated

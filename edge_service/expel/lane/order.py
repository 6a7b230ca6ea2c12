"""In which order the events of a key go: in any, or one after the other, also through the retry topics."""

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from edge_service.expel.lane.events import Event


class Verdict(StrEnum):
    goes = "goes"
    behind = "behind"
    """An earlier event of its key is under way: `finished` gives it back."""
    diverted = "diverted"
    """An earlier event of its key waits in a retry topic: it has to wait there too."""
    known = "known"
    """It stands in a retry topic already: it was read before, and not committed before a kill."""


class Order(Protocol):
    """For one route, on the loop's thread."""

    def begin_batch(self) -> None:
        """What `goes` from now on goes together."""

    def judge(self, event: Event) -> Verdict:
        """Whether it may go into the batch. If it `goes`, it must."""

    def finished(self, events: Sequence[Event]) -> Sequence[Event]:
        """The batch of these is over, each is settled or on its way to another topic. Returns those behind them."""

    def moves(self, event: Event, pause: int) -> None:
        """It goes to the topic of this pause."""

    def stands(self, event: Event, pause: int, at: int) -> None:
        """That topic has it, at this offset."""

    def settled(self, event: Event) -> None:
        """It is delivered or dead."""

    def pause_of(self, event: Event) -> int:
        """For a diverted event, the number of the pause in whose topic the one before it waits."""

    def has_to_wait(self, event: Event) -> bool:
        """Of an event that went: whether one before it waits in a retry topic meanwhile."""

    def forget(self, partition: int) -> None:
        """The partition of the route's topic is not ours any more."""


class AnyOrder:
    """See `Order`."""

    def begin_batch(self) -> None:
        pass

    def judge(self, event: Event) -> Verdict:  # noqa: ARG002 - the interface's
        return Verdict.goes

    def finished(self, events: Sequence[Event]) -> Sequence[Event]:  # noqa: ARG002
        return ()

    def moves(self, event: Event, pause: int) -> None:
        pass

    def stands(self, event: Event, pause: int, at: int) -> None:
        pass

    def settled(self, event: Event) -> None:
        pass

    def pause_of(self, event: Event) -> int:  # noqa: ARG002
        return 0

    def has_to_wait(self, event: Event) -> bool:  # noqa: ARG002
        return False

    def forget(self, partition: int) -> None:
        pass


NOT_KNOWN = -1


@dataclass(frozen=True)
class Waiting:
    """What waits of a partition, since before it was ours."""

    events: Collection[tuple[bytes, int, int, int]] = ()
    """Key, turn and pause of each, and its offset in the topic of the pause; `NOT_KNOWN` if it does not stand there any
    more."""
    copies: Mapping[int, int] = field(default_factory=dict)
    """For an event, by its turn, of which there are several copies: the offset in the topic from which it comes back,
    below which a copy is left over. It was read, and moved on again, and that was not committed before a kill."""


class _Elsewhere:
    """The events of a key that wait in retry topics, in the order of the route's topic."""

    __slots__ = ("_offsets", "_places", "_queues")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._places: dict[int, tuple[int, int]] = {}
        """Pause, and offset in its topic."""
        self._queues: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        """Of each pause: offsets in its topic in their order, each with the event's own. Some do not wait any more."""

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def __contains__(self, offset: int) -> bool:
        return offset in self._places

    @property
    def first(self) -> int:
        return self._offsets[0]

    def put(self, offset: int, pause: int, at: int = NOT_KNOWN) -> None:
        if offset not in self._places:
            insort(self._offsets, offset)
        self._places[offset] = pause, NOT_KNOWN
        if at != NOT_KNOWN:
            self.stands(offset, pause, at)

    def stands(self, offset: int, pause: int, at: int) -> None:
        if self._places.get(offset, (NOT_KNOWN, 0))[0] == pause:
            self._places[offset] = pause, at
            self._queues[pause].append((at, offset))

    def remove(self, offset: int) -> None:
        if self._places.pop(offset, None) is not None:
            self._offsets.pop(bisect_left(self._offsets, offset))

    def come_back(self, offset: int) -> None:
        """Forgets those that stood before it in the topic of its pause: the retrier forwards in order, so they would
        have come back first. They are its dead letters, or the brokers have removed them."""
        pause, at = self._places.get(offset, (0, NOT_KNOWN))
        queue = self._queues[pause]
        while queue and queue[0][0] < at:
            there, other = queue.popleft()
            if self._places.get(other) == (pause, there):
                self.remove(other)

    def pause_before(self, offset: int) -> int:
        place = bisect_left(self._offsets, offset)
        return self._places[self._offsets[max(0, place - 1)]][0]


class KeyOrder:
    """See `Order`. The events of a key in one partition of the route's topic go one batch after the other. Once one
    waits in a retry topic, all later ones go there too, and each is sent only when all before it are settled: the order
    does not rest on that of the retry topics. What does not come back from there, though one behind it does, keeps
    nobody waiting."""

    def __init__(self) -> None:
        self._elsewhere: dict[int, dict[bytes, _Elsewhere]] = {}
        """By partition of the route's topic, and key."""
        self._behind: dict[tuple[int, bytes], deque[Event]] = {}
        """Of keys that a batch has."""
        self._in_batch: set[tuple[int, bytes]] = set()
        self._copies: dict[int, Mapping[int, int]] = {}

    def knows(self, partition: int, waiting: Waiting) -> None:
        """To be called before anything of the partition is judged."""
        keys: dict[bytes, _Elsewhere] = {}
        for key, turn, pause, at in waiting.events:
            keys.setdefault(key, _Elsewhere()).put(turn, pause, at)
        self._copies[partition] = waiting.copies
        self._elsewhere[partition] = keys  # whole, and at once: the route's thread calls this, beside the loop

    def begin_batch(self) -> None:
        self._in_batch.clear()

    def judge(self, event: Event) -> Verdict:
        if event.ordered_by is None:
            return Verdict.goes
        partition, turn = event.place[1], event.turn
        name = partition, event.ordered_by
        elsewhere = self._elsewhere.get(partition, {}).get(event.ordered_by)
        if self._is_left_over(event, partition, turn):
            return Verdict.known
        if name in self._behind:
            if name in self._in_batch and not elsewhere:
                return Verdict.goes
            self._behind[name].append(event)
            return Verdict.behind
        if elsewhere:
            if event.is_first_read and turn in elsewhere:
                return Verdict.known
            if not event.is_first_read:
                elsewhere.come_back(turn)
            if elsewhere.first < turn:
                return Verdict.diverted
        self._behind[name] = deque()
        self._in_batch.add(name)
        return Verdict.goes

    def _is_left_over(self, event: Event, partition: int, turn: int) -> bool:
        if event.is_first_read or event.lease.partition[1] != partition:
            return False
        return event.offset < self._copies.get(partition, {}).get(turn, 0)

    def finished(self, events: Sequence[Event]) -> Sequence[Event]:
        freed: list[Event] = []
        for event in events:
            # What was under way when its partition was lost frees nobody: all that was noted of it is forgotten, and if
            # the partition has come back, the key is that of another batch.
            if event.ordered_by is not None and not event.lease.is_over:
                freed += self._behind.pop((event.place[1], event.ordered_by), ())
        return freed

    def moves(self, event: Event, pause: int) -> None:
        if event.ordered_by is not None:
            partition, turn = event.place[1], event.turn
            self._elsewhere.setdefault(partition, {}).setdefault(event.ordered_by, _Elsewhere()).put(turn, pause)

    def stands(self, event: Event, pause: int, at: int) -> None:
        # A partition that was lost meanwhile may have come back, with what waits since.
        if event.ordered_by is not None and not event.lease.is_over:
            elsewhere = self._elsewhere.get(event.place[1], {}).get(event.ordered_by)
            if elsewhere is not None:
                elsewhere.stands(event.turn, pause, at)

    def settled(self, event: Event) -> None:
        if event.ordered_by is None:
            return
        partition, turn = event.place[1], event.turn
        keys = self._elsewhere.get(partition, {})
        elsewhere = keys.get(event.ordered_by)
        if elsewhere is not None:
            elsewhere.remove(turn)
            if not elsewhere:
                del keys[event.ordered_by]

    def pause_of(self, event: Event) -> int:
        partition, turn = event.place[1], event.turn
        elsewhere = self._elsewhere.get(partition, {}).get(event.ordered_by or b"")
        return elsewhere.pause_before(turn) if elsewhere else 0

    def has_to_wait(self, event: Event) -> bool:
        partition, turn = event.place[1], event.turn
        elsewhere = self._elsewhere.get(partition, {}).get(event.ordered_by) if event.ordered_by is not None else None
        return elsewhere is not None and bool(elsewhere) and elsewhere.first < turn

    def forget(self, partition: int) -> None:
        self._elsewhere.pop(partition, None)
        self._copies.pop(partition, None)
        for name in [name for name in self._behind if name[0] == partition]:
            del self._behind[name]

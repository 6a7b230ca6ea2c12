"""What a receiver has seen, path by path: counts, and which events by their origins. Bounded, however much comes."""

from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_MOST_RANGES = 200_000
"""Of all origins of a path; beyond it they are only counted."""
_MOST_PARTITIONS = 10_000
_LAST_OFFSET = (1 << 63) - 1
"""That a topic can have. Of larger ones Python would not show the sum: a number of 4,301 digits is an error."""
_MOST_IDS = 100_000
"""The newest ids of requests, for finding repeated ones."""

Place = tuple[str, int]
"""A topic and a partition."""


class Ranges:
    """Offsets as ranges that neither overlap nor touch."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []  # one after the last

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, first: int, last: int) -> int:
        """Returns how many of them were there already."""
        end = last + 1
        ends, firsts = self._ends, self._firsts
        if ends and ends[-1] == first:  # what comes most
            ends[-1] = end
            return 0
        # The ranges from `low` to `high` overlap or touch the new one.
        low, high = bisect_left(ends, first), bisect_right(firsts, end)
        known = sum(max(0, min(end, ends[n]) - max(first, firsts[n])) for n in range(low, high))
        if low < high:
            first, end = min(first, firsts[low]), max(end, ends[high - 1])
        firsts[low:high], ends[low:high] = [first], [end]
        return known

    def all(self) -> list[tuple[int, int]]:
        """First and last of each."""
        return [(first, end - 1) for first, end in zip(self._firsts, self._ends, strict=True)]


@dataclass(slots=True)
class PathSeen:
    """What came to one path. An event is *taken* when its request got a 2xx, even if that answer was then lost."""

    requests: int = 0
    size: int = 0
    """Of bodies, as they came over the wire."""
    events: int = 0
    taken: int = 0
    duplicates: int = 0
    """Taken events whose origin had been taken before."""
    repeated: int = 0
    """Requests whose webhook-id had been seen before."""
    unsigned: int = 0
    """Requests whose signature is missing or wrong, if the receiver has a secret."""
    unreadable: int = 0
    """Requests whose body or origins are not what the headers say."""
    answers: Counter[str] = field(default_factory=Counter)
    """By status, and by what happened to the answer if it was not sent whole."""
    origins: dict[Place, Ranges] = field(default_factory=dict)
    uncounted: int = 0
    """Origins that were not kept, since there are too many."""
    _ids: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    _ranges: int = 0

    def take(self, origins: Iterable[tuple[Place, int, int]]) -> None:
        for place, first, last in origins:
            known = self.origins.get(place)
            if known is None:
                if len(self.origins) >= _MOST_PARTITIONS:
                    self.uncounted += last - first + 1
                    continue
                known = self.origins[place] = Ranges()
            elif self._ranges >= _MOST_RANGES:
                self.uncounted += last - first + 1
                continue
            before = len(known)
            self.duplicates += known.add(first, last)
            self._ranges += len(known) - before

    def note_id(self, message_id: bytes) -> None:
        ids = self._ids
        if message_id in ids:
            self.repeated += 1
            ids.move_to_end(message_id)
            return
        ids[message_id] = None
        if len(ids) > _MOST_IDS:
            ids.popitem(last=False)

    def shown(self) -> Mapping[str, object]:
        return {
            "requests": self.requests,
            "bytes": self.size,
            "events": self.events,
            "taken": self.taken,
            "duplicates": self.duplicates,
            "repeated": self.repeated,
            "unsigned": self.unsigned,
            "unreadable": self.unreadable,
            "answers": dict(sorted(self.answers.items())),
            "uncounted": self.uncounted,
        }

    def shown_origins(self) -> Mapping[str, list[tuple[int, int]]]:
        return {f"{topic}/{partition}": ranges.all() for (topic, partition), ranges in sorted(self.origins.items())}


def parse_origins(text: str) -> list[tuple[Place, int, int]]:
    """`topic/partition/first-last,...`; a single offset is its own last. Raises ValueError."""
    found = []
    for one in text.split(","):
        topic, partition, offsets = one.strip().rsplit("/", 2)
        first, _, last = offsets.partition("-")
        begin, end = int(first), int(last or first)
        if not 0 <= begin <= end <= _LAST_OFFSET:
            raise ValueError(one)
        found.append(((topic, int(partition)), begin, end))
    return found

"""How far a partition is written, and what is committed with it: enough to rewind if the store lost writes."""

import hashlib
import json
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Message, TopicPartition

from enrich.base.backoff import Backoff
from enrich.delivery.partitions.ranges import packed, unpacked
from enrich.delivery.partitions.window import Window

_MARKS = 10


# Brokers keep 4,096 bytes of metadata beside an offset. The names of all nodes of a large cluster would take more.
_LONGEST_INCARNATION = 200


def bounded(incarnation: str) -> str:
    """The incarnation, or its hash if it is too long to be committed."""
    if len(incarnation) <= _LONGEST_INCARNATION:
        return incarnation
    return hashlib.sha256(incarnation.encode()).hexdigest()


Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Committed:
    """The metadata of a committed offset."""

    generation: int
    incarnation: str
    marks: Pairs
    """(milliseconds, offset), the oldest first: at this time everything below the offset was in the store."""
    born: str = ""
    """The store's `born`, from its note; see `Generation`. For an endpoint the topic's id. Empty if an older release
    committed."""
    at_ms: int | None = None
    """When it was committed. Idle partitions are committed again now and then, so this shows how long nobody read."""
    done: Pairs = ()
    """(first, last): records above the offset that are settled already, and need not be delivered again."""

    def to_text(self) -> str:
        content = [
            self.generation,
            self.incarnation,
            self.marks,
            self.born,
            self.at_ms,
            *([packed(self.done)] if self.done else []),
        ]
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str | None) -> "Committed | None":
        """None if another program committed, such as an administration tool: its offset is then used unchanged."""
        try:
            generation, incarnation, marks, *more = json.loads(text or "")
            known = tuple((int(at), int(offset)) for at, offset in marks)
            born, at_ms, done = [*more, *("", None, ())[len(more) :]][:3]
            settled = tuple(unpacked(done)) if done else ()
            at_ms = None if at_ms is None else int(at_ms)
            return cls(int(generation), str(incarnation), known, str(born), at_ms, settled)
        except (ValueError, TypeError):
            return None

    def rewound(self, now_ms: int, window_ms: int) -> int | None:
        """The offset that was reached one window ago, or the oldest known one if that is more recent."""
        reached = [offset for at, offset in self.marks if at <= now_ms - window_ms]
        if reached:
            return reached[-1]
        return self.marks[0][1] if self.marks else None

    def on_clock_of(self, now_ms: int) -> Pairs:
        """The marks as if it were committed now, by this clock: that of who committed it may be hours ahead or behind.
        So they are younger than they are, if anything."""
        if self.at_ms is None:
            return self.marks
        return tuple((at + now_ms - self.at_ms, offset) for at, offset in self.marks)


class Marks:
    """The offsets that a partition had reached over time, about ten of them per window."""

    def __init__(self, window_ms: int, known: tuple[tuple[int, int], ...] = ()) -> None:
        self._window_ms = window_ms
        self._marks: deque[tuple[int, int]] = deque(known)

    def add(self, now_ms: int, offset: int) -> None:
        if self._marks and now_ms - self._marks[-1][0] < self._window_ms / _MARKS:
            return
        self._marks.append((now_ms, offset))
        # A rewind goes to the newest mark that is older than the window.
        while len(self._marks) > 1 and self._marks[1][0] <= now_ms - self._window_ms:
            self._marks.popleft()

    def forget_after(self, offset: int) -> None:
        """Removes marks above the offset: the store does not have those records any more."""
        while self._marks and self._marks[-1][1] > offset:
            self._marks.pop()

    def all(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._marks)


@dataclass
class Partition:
    """A partition that is assigned to this instance."""

    topic: str
    number: int
    position: int
    """Everything below is in the store, a retry topic or the DLQ."""
    marks: Marks
    committed: int | None = None
    epoch: int = -1
    """Leader epoch of the record below the position; -1: unknown. Brokers detect a truncated log by it."""
    alive_ms: int | None = None
    """When it was last committed."""
    pending: list[Message] = field(default_factory=list)
    """Read, but not yet in the store."""
    early: list[Message] = field(default_factory=list)
    """Came while the pending ones were being written, so they must not be taken as written with them."""
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 5.0))
    eof: int = 0
    """The consumer reached the end of the partition here: transaction markers after the last record are skipped."""
    end: int | None = None
    """End offset when the flow last looked."""
    due: float = 0.0
    """When the pending records are tried again."""
    waits_until: tuple[int | None, float] | None = None
    """Of a retry topic: the newest pending record's offset, and until when it waits at most."""
    paused: bool = False
    window: Window | None = None
    """Which records are under way, if the sink settles them one by one."""
    done: Pairs = ()
    """What was committed as settled above the position."""
    reported: int | None = None
    """What is below was reported by this instance, or came before it."""
    silent_since: float | None = field(default_factory=time.monotonic)
    """When it was assigned, or held last; None once a record or its end came."""

    @property
    def in_kafka(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)

    def go_to(self, offset: int) -> None:
        """Forgets what was read and is not yet written."""
        self.pending.clear()
        self.early.clear()
        self.position, self.epoch, self.eof = offset, -1, 0
        self.window, self.done = None, ()
        self.reported = offset

    @property
    def settled_beyond(self) -> Pairs:
        """The records above the position that are settled."""
        # Before anything is read it is what the last owner has committed: a commit must not forget it.
        return self.done if self.window is None else self.window.settled_beyond()

    def take_early(self) -> None:
        self.pending += self.early
        self.early.clear()

    def written(self) -> None:
        """Moves on after the sink has taken the pending records."""
        last = self.pending[-1].offset()
        if last is not None:
            self.position = last + 1
            epoch = self.pending[-1].leader_epoch()
            self.epoch = -1 if epoch is None else epoch
        self.pending.clear()
        self.backoff.reset()
        self.due = 0.0


ANOTHER_STORE = "the store was restarted or replaced"
COMMITTED = "committed"


def start_of(
    committed: Any, starts: dict[int, int], current: Committed, now_ms: int, window_ms: int
) -> tuple[int, str]:
    """The offset from which a newly assigned partition is read, and why. `current` describes the present store."""
    floor = starts.get(committed.partition, 0)
    if committed.offset < 0:
        return floor, "nothing is committed"
    known = Committed.from_text(committed.metadata)
    if known is None:
        return max(committed.offset, floor), "committed by another program"
    if known.generation != current.generation:
        return floor, "the generation was raised"
    if known.born and known.born != current.born:
        return floor, "the store was emptied, or the topic made again"
    if known.incarnation != current.incarnation:
        rewound = replace(known, marks=known.on_clock_of(now_ms)).rewound(now_ms, window_ms)
        return max(min(committed.offset, committed.offset if rewound is None else rewound), floor), ANOTHER_STORE
    return max(committed.offset, floor), COMMITTED

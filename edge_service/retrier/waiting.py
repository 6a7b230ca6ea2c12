"""The records of one partition that were read and still wait. When each is due follows from its timestamp."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from enrich.kafka.records import size_of

_OVERHEAD = 1_000
"""What a record takes beside its key, value and headers, in bytes, rather too much: the client's objects."""
_IN_ORDER_MS = 1_000
"""Timestamps of one writer may go back so far, not further."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The same moment by two clocks."""

    wall_ms: int
    """Comparable with the timestamps of records."""
    elapsed_s: float
    """Never set back or forward."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a partition is read ahead."""

    records: int
    bytes: int

    def half(self) -> "Limits":
        return Limits(self.records // 2, self.bytes // 2)


@dataclass(frozen=True, slots=True)
class _Waiting:
    message: Message
    due_s: float
    size: int


class Line:
    """The records of a partition are forwarded in their order, so only the first one's turn matters."""

    def __init__(self, topic: str, partition: int, pause_s: float) -> None:
        self.topic = topic
        self.partition = partition
        self.is_paused = False
        """Nothing more is read of it for now."""
        self.silent_since: float | None = None
        """When it was assigned, until it has returned its first record or its end."""
        self.position: int | None = None
        """The first offset that is not forwarded; None before anything was read."""
        self._pause_s = pause_s
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._end = 0
        """All before this offset was read."""
        self._ahead_s = 0.0
        """How far the clock of the writer is ahead of ours, at least."""
        self._newest_ms = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due_s(self) -> float | None:
        """When the first record is due; None if there is none."""
        return self._waiting[0].due_s if self._waiting else None

    def add(self, message: Message, now: Moment) -> None:
        size = size_of(message) + _OVERHEAD
        self._waiting.append(_Waiting(message, now.elapsed_s + self._wait_s(message, now), size))
        self._bytes += size
        offset = message.offset() or 0
        self._end = offset + 1
        if self.position is None:
            self.position = offset

    @property
    def read_to(self) -> int | None:
        """All before this offset was read; None before anything was."""
        return None if self.position is None else self._end

    def ended(self, offset: int) -> None:
        """All before this offset was read."""
        self._end = offset
        self._pass_end()

    def go_to(self, offset: int) -> None:
        """Is read on there: what should have come next does not exist any more."""
        self._end = offset
        if not self._waiting:
            self.position = offset

    def _pass_end(self) -> None:
        # The markers of transactions take offsets too, and are no records.
        if not self._waiting:
            self.position = max(self.position or 0, self._end)

    def _wait_s(self, message: Message, now: Moment) -> float:
        """How long it has still to wait, at most its pause: a timestamp may be wrong, by a year or by a writer's clock.

        No record is written in the future: a timestamp there shows how far its writer's clock is ahead at least, and
        later ones of that clock are corrected by it. So they keep their distances, and do not wait one after the other.
        """
        kind, timestamp_ms = message.timestamp()
        if kind == TIMESTAMP_NOT_AVAILABLE:
            return self._pause_s
        age_s = (now.wall_ms - timestamp_ms) / 1000
        is_of_that_clock = timestamp_ms >= self._newest_ms - _IN_ORDER_MS
        self._newest_ms = timestamp_ms
        self._ahead_s = max(self._ahead_s if is_of_that_clock else 0.0, -age_s) if age_s < 0 else 0.0
        return max(0.0, self._pause_s - age_s - self._ahead_s)

    def is_over(self, limits: Limits) -> bool:
        return len(self._waiting) >= limits.records or self._bytes >= limits.bytes

    def due(self, now_s: float, most: Limits) -> list[Message]:
        """The records from the first on whose turn it is; a large one alone."""
        taken: list[Message] = []
        size = 0
        for waiting in islice(self._waiting, most.records):
            size += waiting.size
            if waiting.due_s > now_s or (taken and size > most.bytes):
                break
            taken.append(waiting.message)
        return taken

    def count_due(self, now_s: float) -> int:
        """How many of those that were read: there may be more in the topic."""
        count = 0
        for waiting in self._waiting:
            if waiting.due_s > now_s:
                break
            count += 1
        return count

    def is_all_due(self, now_s: float) -> bool:
        """Whether there is probably more in the topic that is due."""
        return bool(self._waiting) and self._waiting[-1].due_s <= now_s

    def forwarded(self, messages: Sequence[Message]) -> None:
        """The first ones, as `due` has returned them."""
        for _ in messages:
            self._bytes -= self._waiting.popleft().size
        if messages:
            self.position = (messages[-1].offset() or 0) + 1
        self._pass_end()

"""What a flow is given - what it reads, and the sink that it writes to - and what its parts share."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import Message

from enrich.base.errors import Retryable, Unreachable
from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.partitions.gaps import Gap
from enrich.delivery.partitions.positions import Partition

_log = logging.getLogger("enrich.delivery")


PartitionId = tuple[str, int]
"""Topic and number."""


class Sink(Protocol):
    """Where records go. How they are handed over, a `BatchSink` or a `StreamSink` says."""

    def remark(self, gap: Gap) -> None:
        """Records the gap for people to decide on. Raises WouldLoseData if the flow must not go on before they have."""

    def settle(self) -> str:
        """Makes sure that what was taken may be committed, and returns the store's incarnation. Raises if not."""

    def report(self, advances: Sequence["Advance"]) -> None:
        """Says what became of all that is settled, before these offsets are committed. Takes a moment at most, and does
        not raise: nothing waits for long to be counted."""


@dataclass(frozen=True, slots=True)
class Advance:
    """All of a partition from `first` up to `following`, which is not in it, is settled."""

    topic: str
    number: int
    first: int
    following: int


class BatchSink(Sink, Protocol):
    """Takes records in batches, one batch at a time."""

    def take(self, messages: Sequence[Message], keep_alive: Callable[[], object]) -> None:
        """When it returns, all records are in the store or sent on elsewhere. If it raises Retryable, all come again.

        Calls `keep_alive` now and then if it takes long.
        """


class StreamSink(Sink, Protocol):
    """Takes records at any time, and settles them later in any order. Called by the flow's thread."""

    settles: threading.Event
    """Set whenever something was settled."""

    def offer(self, messages: Sequence[Message]) -> None:
        """Takes records over, and returns at once."""

    def settled(self) -> Sequence[tuple[PartitionId, Sequence[int]]]:
        """What was settled since the last call: the offsets of each partition. These records are delivered, or stand in
        another topic, acknowledged."""

    def begin(self, partitions: Collection[PartitionId]) -> None:
        """These are read from now on."""

    def withdraw(self, partitions: Collection[PartitionId], patience_s: float) -> None:
        """Begins nothing more of these partitions. Returns when nothing of them is under way, or after `patience_s`."""

    @property
    def is_commit_due(self) -> bool:
        """So much was settled since the last commit that it should be committed now."""

    def committed(self) -> None:
        """What was settled is committed."""


class Handing(Protocol):
    """How the records that were read get to the sink, and how far that is. Called by the flow's thread."""

    @property
    def has_room(self) -> bool:
        """Whether more should be read."""

    @property
    def waiting(self) -> list[int]:
        """The partitions whose records the sink did not take."""

    @property
    def is_commit_due(self) -> bool: ...

    def hand_over(self) -> None:
        """Hands over what is pending, and moves the positions on to where all is settled."""

    def begin(self, partitions: Collection[Partition]) -> None:
        """These were assigned."""

    def give_up(self, partitions: Collection[Partition]) -> None:
        """These are committed a last time after this: begins nothing of them, waits for what is under way."""

    def lose(self, partitions: Collection[Partition]) -> None:
        """These are somebody else's already."""

    def committed(self) -> None:
        """The positions are committed."""


@dataclass(frozen=True)
class Companions:
    """Topics each of whose partitions is read by whoever has the partition with its number in the main topic."""

    partitions: int
    """Of the main topic."""
    topics: Mapping[str, int]
    """Their number of partitions. Those that the main topic lacks go to the numbers modulo its own."""

    def of(self, number: int) -> Sequence[PartitionId]:
        if number >= self.partitions:  # it came later, and its number may be another's companion
            return []
        return [(topic, each) for topic, count in self.topics.items() for each in range(number, count, self.partitions)]


@dataclass(frozen=True)
class FlowPlan:
    """What a flow reads, and from where."""

    topic: str
    generation: int
    starts: Mapping[int, int]
    rewind_ms: int
    born: str = ""
    """The store's `born`; see `Generation`."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Of topics that are read from their beginning if what was committed is of another topic of their name."""
    tombstones_kept_ms: int | None = None
    """For how long the topic keeps tombstones."""
    is_watched: bool = True
    """Whether gaps are reported. Not for retry topics, which are not tables."""
    wait_ms: int = 0
    """For retry topics: how old a record must be before it is written."""
    most_records: int = 5_000
    """Most records in one batch."""
    companions: "Companions | None" = None
    """What is read besides."""
    gather_s: float = 0.01
    """For how long more records are waited for once there is one: a store likes large batches."""
    commit_s: float = 2.0
    """How often what is settled is committed. Nothing is read meanwhile: each second shows in the 95th percentile of
    the latency of a store."""


@dataclass
class FlowState:
    """How a flow is doing. Written by the flow's thread, read by others."""

    trouble: Retryable | None = None
    """Why a partition waits, or why nothing can be committed."""
    trouble_ms: int | None = None
    progressed_ms: int | None = None
    """When it had last written all that it had read."""
    is_member: bool = False
    """Its group has given it its share of the partitions, which may be none."""
    rewinds: int = 0
    away: Unreachable | None = None
    """Set while no broker answers."""


@dataclass(frozen=True)
class Work:
    """What the parts of a flow share."""

    plan: FlowPlan
    sink: Sink
    assigned: Assigned
    clock_ms: Callable[[], int]
    state: FlowState = field(default_factory=FlowState)

    def note_trouble(self, error: Retryable) -> None:
        if self.state.trouble is None:
            _log.warning("waiting: %s", error, extra={"topic": self.plan.topic})
        self.state.trouble, self.state.trouble_ms = error, self.clock_ms()

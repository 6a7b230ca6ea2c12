"""What a flow is given - what it reads, and the sink that it writes to - and what its parts share."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import Message

from enrich.base.errors import Retryable, Unreachable
from enrich.delivery.assigned import Assigned
from enrich.delivery.gaps import Gap

_log = logging.getLogger("enrich.sync")


class Sink(Protocol):
    """Writes records to the store."""

    def take(self, messages: Sequence[Message], keep_alive: Callable[[], object]) -> None:
        """When it returns, all records are in the store or sent on elsewhere. If it raises Retryable, all come again.

        Calls `keep_alive` now and then if it takes long.
        """

    def remark(self, gap: Gap) -> None:
        """Records the gap for people to decide on. Raises WouldLoseData if the flow must not go on before they have."""

    def settle(self) -> str:
        """Makes sure that what was taken may be committed, and returns the store's incarnation. Raises if not."""


@dataclass(frozen=True)
class FlowPlan:
    """What a flow reads, and from where."""

    topic: str
    generation: int
    starts: Mapping[int, int]
    rewind_ms: int
    born: str = ""
    """The store's `born`; see `Generation`."""
    tombstones_kept_ms: int | None = None
    """For how long the topic keeps tombstones."""
    is_watched: bool = True
    """Whether gaps are reported. Not for retry topics, which are not tables."""
    wait_ms: int = 0
    """For retry topics: how old a record must be before it is written."""
    most_records: int = 5_000
    """Most records in one batch."""


@dataclass
class FlowState:
    """How a flow is doing. Written by the flow's thread, read by others."""

    trouble: Retryable | None = None
    """Why a partition waits, or why nothing can be committed."""
    trouble_ms: int | None = None
    progressed_ms: int | None = None
    """When it had last written all that it had read."""
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

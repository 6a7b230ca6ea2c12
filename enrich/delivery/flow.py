"""A consumer group that reads topics, hands the records to a sink, then commits: in this order, so nothing is lost.

Either in batches, as to a store: at most one batch per partition is read and not yet written, and a partition whose
batch the store does not take is paused until it does, while the others go on. Or as a stream, as to an endpoint with
many requests under way: records are settled in any order within a window, and the offset follows what is settled.
"""

import time
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import Consumer

from enrich.base.errors import Retryable
from enrich.delivery.assigning import Assigning
from enrich.delivery.committing import Committing
from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.plan import BatchSink, FlowPlan, Handing, Sink, StreamSink, Work
from enrich.delivery.reading import Reading
from enrich.delivery.sending import Bounds, Sending
from enrich.delivery.writing import Writing

# How often the end offsets for the lag are refreshed.
_ENDS_S = 0.5


class Stopping(Protocol):
    """A `threading.Event`, or what is like one."""

    def is_set(self) -> bool: ...


class Flow:
    """For one `run`. All of it, including the client's callbacks, happens in the caller's thread."""

    def __init__(
        self,
        consumer: Consumer,
        plan: FlowPlan,
        sink: Sink,
        handing: Callable[[Work, Reading], Handing],
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 10**6,
    ) -> None:
        self._assigned = Assigned(consumer)
        self._work = work = Work(plan, sink, self._assigned, clock_ms)
        self._reading = Reading(work)
        self._handing = handing(work, self._reading)
        self._committing = Committing(work)
        self._assigning = Assigning(work, self._handing, self._committing)
        self.state = work.state
        self._is_unsettled = False
        """The last commit failed."""
        self.client_error = self._reading.client_error
        self.lag = self._assigned.lag

    @classmethod
    def in_batches(cls, consumer: Consumer, plan: FlowPlan, sink: BatchSink) -> "Flow":
        """The sink takes one batch at a time."""
        return cls(consumer, plan, sink, lambda work, reading: Writing(work, reading, sink))

    @classmethod
    def streaming(cls, consumer: Consumer, plan: FlowPlan, sink: StreamSink, bounds: Bounds) -> "Flow":
        """The sink settles records in any order, within these bounds."""
        return cls(consumer, plan, sink, lambda work, reading: Sending(work, reading, sink, bounds))

    @property
    def assigned(self) -> list[int]:
        return sorted(partition.number for partition in self._assigned.all())

    @property
    def waiting(self) -> list[int]:
        """The partitions whose records the store did not take."""
        return self._handing.waiting

    def run(self, stopping: Stopping) -> None:
        """Returns after `stopping` is set and what was written is committed. Raises what the service must handle; also
        if that cannot be committed: whoever goes on does it again."""
        self._committing.begin()
        self._assigning.subscribe()
        next_commit = next_ends = 0.0
        while not stopping.is_set():
            if self._handing.has_room:
                self._reading.read()
            self._handing.hand_over()
            self._clear_trouble()
            self._reading.look_for_brokers()
            if time.monotonic() >= next_ends:
                next_ends = time.monotonic() + _ENDS_S
                self._assigned.look_at_ends()
            if time.monotonic() >= next_commit or (self._handing.is_commit_due and not self._is_unsettled):
                next_commit = time.monotonic() + self._work.plan.commit_s
                self._commit()
        self._handing.give_up(self._assigned.all())
        self._committing.commit_all()

    def _commit(self) -> None:
        try:
            self._committing.commit_all()
            self._handing.committed()
            self._is_unsettled = False
        except Retryable as error:
            self._work.note_trouble(error)
            self._is_unsettled = True

    def _clear_trouble(self) -> None:
        state = self.state
        if not self.waiting and not self._is_unsettled:
            state.trouble = None
        if state.trouble is None and state.away is None:
            state.progressed_ms = self._work.clock_ms()

"""A consumer group that reads a topic, writes the records to a sink, then commits: in this order, so nothing is lost.

At most one batch per partition is read and not yet written: a partition whose batch the store does not take is paused
until it does, while the others go on.
"""

import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer

from enrich.base.errors import Retryable
from enrich.delivery.assigned import Assigned
from enrich.delivery.assigning import Assigning
from enrich.delivery.committing import Committing
from enrich.delivery.plan import FlowPlan, Sink, Work
from enrich.delivery.reading import Reading
from enrich.delivery.writing import Writing

# Nothing is read during a commit: committing each second shows in the 95th percentile of the latency.
_COMMIT_S = 2.0
# How often the end offsets for the lag are refreshed.
_ENDS_S = 0.5


class Flow:
    """For one `run`. All of it, including the client's callbacks, happens in the caller's thread."""

    def __init__(
        self,
        consumer: Consumer,
        plan: FlowPlan,
        sink: Sink,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 10**6,
    ) -> None:
        self._assigned = Assigned(consumer, plan.topic)
        self._work = work = Work(plan, sink, self._assigned, clock_ms)
        self._reading = Reading(work)
        self._writing = Writing(work, self._reading)
        self._committing = Committing(work)
        self._assigning = Assigning(work, self._committing)
        self.state = work.state
        self._is_unsettled = False
        """The last commit failed."""
        self.client_error = self._reading.client_error
        self.lag = self._assigned.lag

    @property
    def assigned(self) -> list[int]:
        return sorted(partition.number for partition in self._assigned.all())

    @property
    def waiting(self) -> list[int]:
        """The partitions whose records the store did not take."""
        return self._writing.waiting

    def run(self, stopping: threading.Event) -> None:
        """Returns after `stopping` is set and what was written is committed. Raises what the service must handle."""
        self._committing.begin()
        self._assigning.subscribe()
        next_commit = next_ends = 0.0
        while not stopping.is_set():
            self._reading.read()
            self._writing.write()
            self._clear_trouble()
            self._reading.look_for_brokers()
            if time.monotonic() >= next_ends:
                next_ends = time.monotonic() + _ENDS_S
                self._assigned.look_at_ends()
            if time.monotonic() >= next_commit:
                next_commit = time.monotonic() + _COMMIT_S
                self._commit()
        self._commit()

    def _commit(self) -> None:
        try:
            self._committing.commit_all()
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

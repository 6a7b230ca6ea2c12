"""Between the thread of a route, which has its consumer, and the loop, which has its requests."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

import uvloop
from confluent_kafka import Message

from edge_service.expel.lane.events import Event, Lease
from edge_service.expel.lane.lane import Lane
from edge_service.expel.tallying import Tallying
from enrich.delivery.partitions.gaps import Gap
from enrich.delivery.plan import Advance, PartitionId

_LOOK_S = 0.01
_T = TypeVar("_T")


class LoopThread:
    """The event loop of a program, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="requests", daemon=True)
        self._thread.start()

    def wait_for(self, work: Coroutine[Any, Any, _T], deadline_s: float = 30.0) -> _T:
        """To be called by other threads."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(deadline_s)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)


class LaneSink:
    """See `delivery.plan.StreamSink`: hands what the route's consumer reads to its lane."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        route_topic: str,
        topic_id: str,
        batches: int,
        remark: Callable[[Gap], None],
        begun: Callable[[Collection[PartitionId]], None] | None,
        tallying: Tallying | None = None,
    ) -> None:
        """`batches`: so many may be settled and not committed; then nothing is sent before that is done: a kill repeats
        no more. `begun` is called with the partitions that are read from now on. `tallying`: who reports what became of
        events."""
        self.settles = threading.Event()
        self.lane: Lane | None = None
        self._loop = loop
        self._topic = route_topic
        self._topic_id = topic_id
        self._batches = batches
        self._remark = remark
        self._begun = begun
        self._tallying = tallying
        self._leases: dict[PartitionId, Lease] = {}
        self._lock = threading.Lock()
        self._settled: defaultdict[PartitionId, list[int]] = defaultdict(list)
        self._settled_batches = 0
        """Since the route's thread looked."""
        self._uncommitted_batches = 0

    # Called by the lane, on the loop.

    def note_settled(self, events: Sequence[Event]) -> None:
        with self._lock:
            for event in events:
                self._settled[event.lease.partition].append(event.offset)
            self._settled_batches += 1
            if self._tallying is not None:
                self._tallying.note(events, self._loop.time())
        self.settles.set()

    def may_send(self) -> bool:
        return self._settled_batches + self._uncommitted_batches < self._batches

    # Called by the route's thread.

    def offer(self, messages: Sequence[Message]) -> None:
        self._loop.call_soon_threadsafe(self._take, messages)

    def settled(self) -> Sequence[tuple[PartitionId, Sequence[int]]]:
        if not self._settled:
            return ()
        with self._lock:
            settled, self._settled = self._settled, defaultdict(list)
            self._uncommitted_batches += self._settled_batches
            self._settled_batches = 0
            if self._tallying is not None:
                self._tallying.take()
        return list(settled.items())

    def begin(self, partitions: Collection[PartitionId]) -> None:
        if self._begun is not None:
            self._begun(partitions)
        for partition in partitions:
            route_topic = None if partition[0] == self._topic else self._topic
            self._leases[partition] = Lease(partition, route_topic, self._topic_id)

    def withdraw(self, partitions: Collection[PartitionId], patience_s: float) -> None:
        leases = [lease for partition in partitions if (lease := self._leases.pop(partition, None)) is not None]
        if leases and self.lane is not None:
            asyncio.run_coroutine_threadsafe(self._withdrawn(self.lane, leases, patience_s), self._loop).result()

    @property
    def is_commit_due(self) -> bool:
        return self._uncommitted_batches >= self._batches // 2

    def committed(self) -> None:
        self._uncommitted_batches = 0
        if self.lane is not None:
            self._loop.call_soon_threadsafe(self.lane.resume)

    def remark(self, gap: Gap) -> None:
        self._remark(gap)

    def report(self, advances: Sequence[Advance]) -> None:
        if self._tallying is not None:
            self._tallying.report(advances, self._loop.time())

    def settle(self) -> str:
        return ""  # nothing is settled before it is acknowledged, and an endpoint has no incarnations

    # On the loop.

    def _take(self, messages: Sequence[Message]) -> None:
        if self.lane is None:
            return
        try:
            self.lane.take(self._events(messages))
        except Exception as error:  # noqa: BLE001 - the top of what the loop calls: no error may stop a route silently
            self.lane.fails(error)

    def _events(self, messages: Sequence[Message]) -> Sequence[Event]:
        now, leases, events = self._loop.time(), self._leases, list[Event]()
        for message in messages:
            lease = leases.get((message.topic() or "", message.partition() or 0))
            if lease is not None:  # else it was given up meanwhile
                events.append(Event(message, lease, now))
        return events

    @staticmethod
    async def _withdrawn(lane: Lane, leases: Sequence[Lease], patience_s: float) -> None:
        lane.withdraw(leases)
        end = lane.now_s + patience_s
        while any(lease.under_way for lease in leases) and lane.now_s < end:
            await asyncio.sleep(_LOOK_S)

"""A route: the events of a topic, and those that come back from its retries, to one endpoint."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError

from edge_service.expel.lane.breaker import State
from edge_service.expel.lane.lane import COUNTED, Lane
from edge_service.expel.lane.order import AnyOrder, KeyOrder, Order
from edge_service.expel.lane.outbox import Outbox
from edge_service.expel.plan import ExpelPlan
from edge_service.expel.streaming import LaneSink, LoopThread
from edge_service.expel.tallying import Tallying
from edge_service.expel.topic_watch import TopicWatch
from edge_service.expel.waiting_events import StoppedError, WaitingEvents
from edge_service.losses import Losses
from edge_service.old_pauses import old_pauses
from enrich.base.errors import EnrichError, WouldLoseData
from enrich.config import Pipeline
from enrich.config.sections.kafka.client_settings import Role
from enrich.delivery.flow import Flow
from enrich.delivery.holds import PERSON, Hold, Holds, make_holds_topic
from enrich.delivery.plan import Companions, FlowPlan
from enrich.delivery.refused.letters import Letters
from enrich.delivery.refused.spill import Spill
from enrich.delivery.refused.topics import grow_topics, make_topics
from enrich.delivery.sending import Bounds
from enrich.endpoints.http import HttpClient
from enrich.kafka import Connection, Topics, librdkafka_settings, new_admin_client, new_group_consumer
from enrich.kafka.clients.settings import member_settings
from enrich.kafka.writing.room import room_in, sized
from enrich.service.meters import Meter
from enrich.service.routes import Paused, RouteKind, RouteState, RouteStatus
from enrich.tally import NodeKind
from enrich.tally.writing import Reporter, Tallies

_log = logging.getLogger("enrich.expel")

_KAFKA_DEADLINE_S = 10.0
_SPARE_S = 1.0
_LEAST_UNCOMMITTED = 8
"""Requests: with fewer, a route with few at once would only commit."""
_MOST_PATIENCE_S = 20.0
"""A stop has 27 seconds altogether, and tallies and holds may need some of them."""
# If an offset does not exist any more, the client must report it, not silently start at another one.
_WATCHED = {"auto.offset.reset": "error", "enable.partition.eof": True}


class _Ending:
    """Set when the program is to stop, the route is on hold, or nothing can be sent any more."""

    def __init__(
        self, stopping: threading.Event, hold: Callable[[], Hold | None], failure: Callable[[], EnrichError | None]
    ) -> None:
        self._stopping = stopping
        self._hold = hold
        self._failure = failure

    def is_set(self) -> bool:
        return self._stopping.is_set() or self._hold() is not None or self._failure() is not None


class OnHold(WouldLoseData):
    """The endpoint refuses us: sending on would make dead letters of all events."""


class Clients:
    """What all routes of the program share."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.consumer: Connection = member_settings(pipeline.kafka)
        self.producer: Connection = librdkafka_settings(pipeline.kafka, Role.producer)
        self.common: Connection = librdkafka_settings(pipeline.kafka, Role.common)
        self.holds = Holds(self.common, pipeline.name)
        self.topic_watch = TopicWatch(self.topics)
        self.tallies = Tallies(pipeline.name, pipeline.tallies_topic, self.producer, self.topics)
        self._loop: LoopThread | None = None
        self._lock = threading.Lock()

    @property
    def loop(self) -> LoopThread:
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop

    def topics(self) -> Topics:
        return Topics(new_admin_client(self.common), _KAFKA_DEADLINE_S)

    def close(self) -> None:
        """Once the routes have ended. Waits a moment for what is not written yet: holds, and tallies."""
        self.holds.close()
        self.tallies.close()
        if self._loop is not None:
            self._loop.close()


class ExpelRoute:
    """See `Route`."""

    kind = RouteKind.expel

    def __init__(self, plan: ExpelPlan, clients: Clients) -> None:
        self._plan = plan
        self._clients = clients
        self._meter = Meter("events_delivered", (*COUNTED, "dead_letters_spilled", "gaps"))
        self._flow: Flow | None = None
        self._lane: Lane | None = None
        self._outbox: Outbox | None = None
        self._progressed_ms: int | None = None
        self._losses = Losses(plan.name, self._meter, _log)
        self._is_on_hold = False
        spilled = partial(self._meter.count, "dead_letters_spilled")
        self._spill = Spill(plan.directory / f"{plan.name}.dead-letters.jsonl", spilled)
        self._reporter: Reporter | None = None

    @property
    def name(self) -> str:
        return self._plan.name

    @property
    def clients(self) -> Clients:
        return self._clients

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():  # more than once if a person resumes it before it has ended for its hold
            with suppress(StoppedError):
                self._run_once(stopping)

    def _run_once(self, stopping: threading.Event) -> None:
        topics = self._clients.topics()
        partitions = self._made_topics(topics)
        self._require_no_hold()
        try:
            with ExitStack() as held:
                self._run(held, stopping, topics, partitions)
        finally:
            if self._flow is not None:
                self._progressed_ms = self._flow.state.progressed_ms or self._progressed_ms
            self._flow = self._lane = self._outbox = None

    def _run(self, held: ExitStack, stopping: threading.Event, topics: Topics, partitions: int) -> None:
        plan, section, loop = self._plan, self._plan.section, self._clients.loop
        retries = [(topic, len(topics.partitions(topic))) for topic in plan.retry_in]
        # A route without pauses may have had some: what waited comes back.
        comes_back = bool(retries) or topics.exists(plan.retry_out)
        out = {plan.retry_out: len(topics.partitions(plan.retry_out))} if comes_back else {}
        companions = Companions(partitions, out)
        old = old_pauses(topics, plan.pipeline, self.name, plan.retry_in) if plan.keeps_order else ()
        waiting = [*plan.retry_in, *old]
        known = {topic: topics.identity(topic) for topic in (section.topic, *companions.topics, *waiting)}
        watched = held.enter_context(self._clients.topic_watch.watching(known))
        ids = {topic: one for topic, (one, _) in known.items()}
        topic_id = ids[section.topic]
        order: Order = KeyOrder() if plan.keeps_order else AnyOrder()
        begun = None
        if isinstance(order, KeyOrder):
            waits = WaitingEvents(plan, self._clients.common, topics, topic_id, waiting, stopping.is_set)
            begun = partial(waits.begin, order, partitions)
        self._reporter = self._reporter or self._clients.tallies.reporter(NodeKind.expel, self.name)
        tallying = None if self._reporter is None else Tallying(self._reporter)
        uncommitted = max(2 * section.parallel, _LEAST_UNCOMMITTED)
        remark = self._losses.remark
        sink = LaneSink(loop.loop, section.topic, topic_id, uncommitted, remark, begun, tallying)
        rooms = [room_in([name], topics, self._clients.producer) for name in (section.dlq, *plan.retry_in)]
        letters, producer = Letters(plan.name, rooms[0], self._spill), sized(self._clients.producer, rooms)

        async def begin() -> tuple[Lane, Outbox]:
            client = HttpClient(plan.http, section.parallel, plan.where)
            outbox = Outbox(producer, retries, section.dlq, letters, plan.sender, topic_id)
            settle, may_send = sink.note_settled, sink.may_send
            return Lane(plan.lane, client, outbox, order, self._meter, settle, self._hold_here, may_send), outbox

        self._lane, self._outbox = lane, outbox = loop.wait_for(begin())
        sink.lane = lane
        held.callback(self._end, lane, outbox)
        consumer = new_group_consumer(self._clients.consumer, plan.group, **_WATCHED, error_cb=self._client_error)
        held.callback(consumer.close)  # first of all: what is under way then is waited for, and committed
        patience_s = min(plan.http.timeout.total_seconds() + _SPARE_S, _MOST_PATIENCE_S)
        window = section.window
        flow_plan = FlowPlan(
            section.topic, 0, {}, 0, topic_ids=ids, companions=companions, gather_s=0.002, commit_s=1.0
        )
        bounds = Bounds(window.events, window.bytes, patience_s)
        self._flow = Flow.streaming(consumer, flow_plan, sink, bounds)
        holds = self._clients.holds

        def failure() -> EnrichError | None:
            return lane.failure or outbox.failure or watched.failure

        self._flow.run(_Ending(stopping, lambda: holds.of(self.name), failure))
        if (error := failure()) is not None:
            raise error
        if not stopping.is_set():
            self._require_no_hold()

    def _end(self, lane: Lane, outbox: Outbox) -> None:
        async def end() -> None:
            await lane.close()
            await outbox.close()

        self._clients.loop.wait_for(end())

    def _made_topics(self, topics: Topics) -> int:
        plan, section = self._plan, self._plan.section
        make_holds_topic(topics, plan.pipeline)
        partitions = len(topics.partitions(section.topic))
        retries = [*plan.retry_in, plan.retry_out] if plan.retry_in else []
        kept = max(section.retries, default=section.max_age) + section.max_age
        make_topics(topics, section.topic, section.dlq, retries, partitions, kept)
        if plan.keeps_order:  # it rests on that an event comes back to whoever has its partition
            grow_topics(topics, retries, partitions)
        return partitions

    def _require_no_hold(self) -> None:
        hold = self._clients.holds.of(self.name)
        self._is_on_hold = hold is not None
        if hold is None:
            return
        resume = f"`enrich expel resume {self.name} -c FILE` sends on; `enrich dlq replay` takes dead letters back"
        if hold.by == PERSON:
            raise Paused(hold.reason, where=self._plan.where, next_step=resume)
        raise OnHold(f"the endpoint refuses us: {hold.reason}", where=self._plan.where, next_step=resume)

    def _hold_here(self, reason: str) -> None:
        self._clients.holds.hold(self.name, reason)

    def _client_error(self, error: KafkaError) -> None:
        if self._flow is not None:
            self._flow.client_error(error)

    def status(self) -> RouteStatus:
        flow, lane, outbox, totals = self._flow, self._lane, self._outbox, dict(self._meter.totals())
        warnings = [*self._losses.warnings, *self._spill.warnings, *self._clients.tallies.warnings]
        details: dict[str, Any] = {"topic": self._plan.section.topic, "warnings": warnings}
        if flow is None or lane is None or outbox is None:
            progressed = self._progressed_ms
            ready = self._is_on_hold
            return RouteStatus(
                self.name, self.kind, last_progress_ms=progressed, counters=totals, details=details, is_ready=ready
            )
        trouble, trouble_ms = self._trouble(flow, lane, outbox)
        details |= {"partitions": flow.assigned, "breaker": lane.breaker.state, **_limits(lane)}
        return RouteStatus(
            self.name,
            self.kind,
            _state(trouble, lane, flow),
            lag=flow.lag(),
            rows_per_s=round(self._meter.per_second(), 1),
            last_error=trouble,
            last_error_ms=trouble_ms,
            last_progress_ms=flow.state.progressed_ms or self._progressed_ms,
            counters=totals,
            gauges={
                "partitions": len(flow.assigned),
                "requests_under_way": lane.concurrency.under_way,
                "requests_limit": lane.concurrency.limit,
                "events_waiting": lane.waiting,
                "breaker_open": float(lane.breaker.state is not State.CLOSED),
                "warnings": len(warnings),
            },
            details=details,
            is_ready=flow.state.is_member and flow.state.away is None and flow.state.progressed_ms is not None,
        )

    @staticmethod
    def _trouble(flow: Flow, lane: Lane, outbox: Outbox) -> tuple[str | None, int | None]:
        state = flow.state
        kafka: EnrichError | None = state.away or state.trouble
        if kafka is not None:
            return str(kafka), state.trouble_ms
        if outbox.trouble is not None:
            return outbox.trouble, outbox.trouble_ms
        return lane.trouble, lane.trouble_ms


def _state(trouble: str | None, lane: Lane, flow: Flow) -> RouteState:
    if trouble is not None and not _still_sends(lane, flow):
        return RouteState.waiting
    return RouteState.running if flow.state.is_member else RouteState.starting


def _still_sends(lane: Lane, flow: Flow) -> bool:
    return lane.breaker.state is State.CLOSED and flow.state.away is None and flow.state.trouble is None


def _limits(lane: Lane) -> Mapping[str, Any]:
    quiet_s = lane.quiet_s
    return {"limit": lane.concurrency.limit, **({"quiet_s": round(quiet_s, 1)} if quiet_s > 0 else {})}

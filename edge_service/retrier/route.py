"""The retrier of one route: what has waited in its retry topics goes to the topic from which the route reads again."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property

from confluent_kafka import KafkaError, Message

from edge_service.losses import Losses
from edge_service.old_pauses import old_pauses
from edge_service.retrier.forwarding import DEADLINE_S, Forwarding, Sorted, make_dlq, rooms_of, why_refused
from edge_service.retrier.places import NOWHERE, look
from edge_service.retrier.plan import RetryPlan
from edge_service.retrier.reading import Reading, moment, positions
from edge_service.retrier.status import Shown, shown, status_of
from edge_service.retrier.tallying import Tallying
from edge_service.retrier.waiting import Limits, Line, Moment
from enrich.base.backoff import Backoff
from enrich.base.errors import BadRecord, CorruptState, EnrichError, Fatal, Fenced, Retryable
from enrich.config import Pipeline, Role
from enrich.kafka import Connection, Topics, librdkafka_settings, new_admin_client
from enrich.kafka.clients.errors import code_of
from enrich.kafka.clients.settings import member_settings
from enrich.kafka.records import Place, own_place
from enrich.service.meters import Meter
from enrich.service.routes import RouteKind, RouteState, RouteStatus
from enrich.tally import NodeKind
from enrich.tally.writing import Reporter, Tallies

_log = logging.getLogger("enrich.retrier")

_MOST = Limits(5_000, 2 * 2**20)
"""Of one transaction."""
_LEAST_APART_S = 0.03
"""Between transactions that are not full: each costs the brokers several requests, however small it is."""
_LONGEST_WAIT_S = 1.0
_READ_AT_LEAST_EVERY_S = 1.0
"""A member of a group must poll."""
_LOOK_EVERY_S, _LOOK_AGAIN_S = 10.0, 1.0
_OLD_EVERY_S = 60.0
"""How often topics of old pauses are looked for: other instances may still have the old configuration."""
_SHOW_EVERY_S = 1.0
_STALE_ROOM_S = 10.0
_QUIET_TRIES = 2
"""A rebalance makes a transaction fail, and the next one works: that is not reported."""


class Clients:
    """What the routes of a pipeline share. Opens no connection before it is needed."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.consumer: Connection = member_settings(pipeline.kafka)
        self.producer: Connection = librdkafka_settings(pipeline.kafka, Role.producer)
        self._common: Connection = librdkafka_settings(pipeline.kafka, Role.common)
        self.tallies = Tallies(pipeline.name, pipeline.tallies_topic, self.producer, self._new_topics)

    @cached_property
    def topics(self) -> Topics:
        return self._new_topics()

    def _new_topics(self) -> Topics:
        return Topics(new_admin_client(self._common), DEADLINE_S)


class RetryRoute:
    """See `Route`."""

    kind = RouteKind.retry

    def __init__(self, plan: RetryPlan, clients: Clients, clock: Callable[[], Moment] = moment) -> None:
        self._plan = plan
        self._clients = clients
        self._clock = clock
        self._meter = Meter("forwarded", ("dead_letters", "gaps"))
        self._losses = Losses(plan.route, self._meter, _log)
        self._shown = Shown()
        self._reporter: Reporter | None = None

    @property
    def name(self) -> str:
        return self._plan.route

    def close(self) -> None:
        """Once all routes have ended that share its clients."""
        self._clients.tallies.close()

    def run(self, stopping: threading.Event) -> None:
        # What the last run has shown, before it failed, does not go on while this one tries.
        self._shown = replace(self._shown, state=RouteState.starting)
        while not stopping.is_set():
            plan = self._plan_now()
            if not plan.pauses:
                self._shown = Shown(state=RouteState.standby)
                stopping.wait(_OLD_EVERY_S)
                continue
            try:
                self._run(plan, stopping)
            except _OtherOldPausesError:
                _log.info("topics of old pauses have come or gone", extra={"route": self.name})

    def _run(self, plan: RetryPlan, stopping: threading.Event) -> None:
        with ExitStack() as held:
            consumer = self._clients.consumer
            reading = held.enter_context(closing(Reading(consumer, plan, self._clock, self._losses.remark)))
            self._reporter = self._reporter or self._clients.tallies.reporter(NodeKind.retrier, self.name)
            tallying = Tallying(self._reporter)
            work = _Work(plan, self._clients, reading, self._meter, self._clock, tallying)
            held.callback(tallying.close)
            held.callback(work.close)
            while not stopping.is_set():
                self._shown = work.turn()

    def _plan_now(self) -> RetryPlan:
        plan = self._plan
        return plan.with_old(old_pauses(self._clients.topics, plan.pipeline, plan.route, plan.pauses))

    def status(self) -> RouteStatus:
        return status_of(self.name, self._shown, self._meter, [*self._losses.warnings, *self._clients.tallies.warnings])


class _OtherOldPausesError(Exception):
    """The topics that are read are not those that there are any more."""


class _Work:
    """For one `run`."""

    def __init__(
        self,
        plan: RetryPlan,
        clients: Clients,
        reading: Reading,
        meter: Meter,
        clock: Callable[[], Moment],
        tallying: Tallying,
    ) -> None:
        self._plan = plan
        self._clients = clients
        self._reading = reading
        self._meter = meter
        self._clock = clock
        self._tallying = tallying
        self._places = NOWHERE
        self._ids: dict[str, str] = {}
        """Of every topic that was there."""
        self._next_look_s = self._next_read_s = self._next_forward_s = self._next_show_s = float("-inf")
        self._next_old_s = clock().elapsed_s + _OLD_EVERY_S
        self._forwarding: Forwarding | None = None
        self._rooms_s = float("-inf")
        """When the producer's rooms were asked for."""
        self._most = _MOST.records
        self._refused: dict[Place, str] = {}
        """Why the brokers refused to take records, alone."""
        self._backoff = Backoff(0.05, 5.0)
        self._trouble: EnrichError | None = None
        self._silence: Retryable | None = None
        """Why the topics cannot be looked at."""
        self._forwarded: dict[str, int] = dict.fromkeys(plan.pauses, 0)
        self._shown = Shown()

    def close(self) -> None:
        if self._forwarding is not None:
            self._forwarding.close()
            self._forwarding = None

    def turn(self) -> Shown:
        """Waits until there is something to do, for a moment at most, and does it."""
        self._look()
        self._read()
        now_s = self._clock().elapsed_s
        if now_s >= self._next_forward_s:
            batch = self._due(now_s)
            if batch:
                self._forward(batch)
            else:
                self._settled()
        self._reading.adjust()
        if now_s >= self._next_show_s:
            self._next_show_s = now_s + _SHOW_EVERY_S
            self._shown = self._show(now_s)
        return self._shown

    def _read(self) -> None:
        """Not while there is enough for the next transaction: the client fetches more meanwhile, within its bounds."""
        now_s = self._clock().elapsed_s
        can_forward = now_s >= self._next_forward_s and self._places.is_there(self._plan.retry_out)
        if can_forward and now_s < self._next_read_s and self._reading.backlog() >= self._most:
            return
        self._reading.read(self._wait_s())
        self._next_read_s = self._clock().elapsed_s + _READ_AT_LEAST_EVERY_S

    def _wait_s(self) -> float:
        now_s, due_s = self._clock().elapsed_s, self._reading.next_due_s()
        if due_s is None or not self._places.is_there(self._plan.retry_out):
            return _LONGEST_WAIT_S
        return min(max(0.0, max(due_s, self._next_forward_s) - now_s), _LONGEST_WAIT_S)

    def _look(self) -> None:
        now_s = self._clock().elapsed_s
        if now_s < self._next_look_s:
            return
        try:
            found = look(self._plan, self._clients.topics, self._places)
            self._require_old(found.missing, now_s)
        except Retryable as error:
            self._silence, self._next_look_s = error, now_s + _LOOK_AGAIN_S
            return
        self._silence = None
        if found.is_told:  # a client that reads nothing, as without partitions, does not say that they are back
            self._reading.is_away = False
        self._require_same({name: ends.topic_id for name, ends in found.known.items()})
        if not self._places.is_like(found, self._plan.retry_out):
            self.close()
        self._places = found
        self._next_look_s = now_s + (_LOOK_AGAIN_S if found.missing else _LOOK_EVERY_S)

    def _require_old(self, missing: Collection[str], now_s: float) -> None:
        """Those that are there, and no others."""
        plan = self._plan
        is_news = not plan.old.isdisjoint(missing)
        if not is_news and now_s >= self._next_old_s:
            self._next_old_s = now_s + _OLD_EVERY_S
            present = plan.pauses.keys() - plan.old
            is_news = old_pauses(self._clients.topics, plan.pipeline, plan.route, present).keys() != plan.old
        if is_news:
            raise _OtherOldPausesError

    def _due(self, now_s: float) -> list[tuple[Line, list[Message]]]:
        """The records whose turn it is, of all partitions, as far as a transaction takes them."""
        if not self._places.is_there(self._plan.retry_out):
            return []
        lines = [line for line in self._reading.lines() if line.due_s is not None and line.due_s <= now_s]
        lines.sort(key=lambda line: line.due_s or 0.0)  # the one that is late the longest comes first
        batch, records = [], self._most
        for number, line in enumerate(lines):
            share = max(1, records // (len(lines) - number))
            messages = line.due(now_s, Limits(share, max(1, _MOST.bytes // len(lines))))
            batch.append((line, messages))
            records -= len(messages)
            if records <= 0:
                break
        return batch

    def _forward(self, batch: list[tuple[Line, list[Message]]]) -> None:
        messages = [message for _, some in batch for message in some]
        try:
            forwarding, sorted_out = self._sorted_out(messages)
            done = positions(batch)
            self._require_same(self._ids_now({line.topic for line, _ in batch}))
            self._tallying.begins(sorted_out, messages, done)
            forwarding.forward(sorted_out, done, self._reading.group, self._tallying.is_committed_next)
        except EnrichError as error:
            self._failed(error, messages)
            return
        for line, some in batch:
            line.forwarded(some)
            self._forwarded[line.topic] += len(some)
        self._tallying.ended(messages)
        self._meter.count("forwarded", len(sorted_out.good))
        self._meter.count("dead_letters", len(sorted_out.dead))
        if self._refused:
            for message in messages:
                self._refused.pop(own_place(message), None)
        self._settled()
        is_full = len(messages) >= self._most
        self._most = min(_MOST.records, self._most * 2)
        self._next_forward_s = self._clock().elapsed_s + (0.0 if is_full else _LEAST_APART_S)

    def _require_same(self, ids: Mapping[str, str]) -> None:
        """The client reads on at its old position in a topic that was made again. With that position committed, what
        stands before it would never be read."""
        for name, one in ids.items():
            if self._ids.setdefault(name, one) != one:
                raise Retryable("the topic was recreated: the route begins again", where=f"topic {name}")

    def _ids_now(self, topics: Collection[str]) -> Mapping[str, str]:
        ids = {}
        for name, found in self._clients.topics.identities(sorted(topics)).items():
            if isinstance(found, EnrichError):
                raise Retryable(found.what, where=f"topic {name}") from found
            ids[name] = found[0]
        return ids

    def _settled(self) -> None:
        self._trouble = None
        self._backoff.reset()

    def _sorted_out(self, messages: list[Message]) -> tuple[Forwarding, Sorted]:
        """With a producer that can write these."""
        forwarding = self._forwarding or self._begin()
        found = forwarding.sorted_out(messages, self._refused)
        if found.dead and self._clock().elapsed_s > self._rooms_s + _STALE_ROOM_S:
            self.close()  # perhaps the topic takes larger ones by now
            forwarding = self._begin()
            found = forwarding.sorted_out(messages, self._refused)
        if found.dead:
            make_dlq(self._plan, self._clients.topics, self._places.partitions(self._plan.retry_out))
        return forwarding, found

    def _begin(self) -> Forwarding:
        rooms = rooms_of(self._plan, self._clients.topics, self._clients.producer)
        partitions = self._places.partitions(self._plan.retry_out)
        self._forwarding = Forwarding(self._clients.producer, self._plan, rooms, partitions)
        self._rooms_s = self._clock().elapsed_s
        return self._forwarding

    def _failed(self, error: EnrichError, messages: list[Message]) -> None:
        """The batch is still waiting. Raises Retryable if only the group's offsets show whether it was forwarded."""
        is_unknown = self._forwarding is not None and self._forwarding.is_open
        self.close()
        if is_unknown or isinstance(error, Fenced | Fatal | CorruptState):
            raise Retryable(error.what, where=error.where, next_step="the route begins again by itself") from error
        pause_s = self._backoff.next_s()
        # Its time is that of this moment: brokers that refuse it refuse all, until somebody sets a clock.
        if isinstance(error, BadRecord) and code_of(error) != KafkaError.INVALID_TIMESTAMP:
            # The brokers refuse a whole batch: halve it until the record is found.
            first, is_alone = own_place(messages[0]), len(messages) == 1
            if not is_alone or first not in self._refused:
                pause_s = 0.0  # otherwise the DLQ has refused it, too
            if is_alone:
                self._refused.setdefault(first, why_refused(self._plan, error, messages[0]))
            self._most = max(1, len(messages) // 2)
        self._note(error)
        self._next_forward_s = self._clock().elapsed_s + pause_s
        self._next_look_s = float("-inf")

    def _note(self, error: EnrichError) -> None:
        if self._backoff.tries > _QUIET_TRIES or not isinstance(error, Retryable):
            if self._trouble is None:
                _log.warning("waiting: %s", error, extra={"route": self._plan.route})
            self._trouble = error

    def _show(self, now_s: float) -> Shown:
        trouble = self._silence or self._trouble
        return shown(self._plan, self._reading, self._places, trouble, self._forwarded, now_s, self._shown)

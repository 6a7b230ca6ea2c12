"""The way of a route's events to its endpoint: batches, how many at once, what becomes of each.

What is under way, waits or is refused here touches no other route: each has a lane, a consumer and connections of its
own. All of it runs on the loop's thread; `streaming` is how the route's thread speaks with it.
"""

import asyncio
import gzip
import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from edge_service.expel.lane.breaker import Breaker, State
from edge_service.expel.lane.events import BODIES, Batch, Became, Event, Lease, Origins, has_body, origins_of
from edge_service.expel.lane.limits import Concurrency, Rate
from edge_service.expel.lane.order import Order, Verdict
from edge_service.expel.lane.outbox import Outbox
from edge_service.expel.lane.outcomes import Meaning, Outcome, Table, of_no_answer
from edge_service.expel.plan import LanePlan
from enrich.base.backoff import Backoff
from enrich.base.errors import EnrichError, Fatal
from enrich.config.types.quantities import duration_text
from enrich.endpoints.http import HttpClient, NoAnswer
from enrich.service.meters import Meter
from enrich.service.signatures import Signer

_log = logging.getLogger("enrich.expel")

COUNTED = (
    "requests",
    "requests_failed",
    "bytes_sent",
    "batches_halved",
    "retries",
    "events_retried_later",
    "events_diverted",
    "dead_letters",
)
"""Beside the events that are delivered."""

_FAILURES = 8
"""Requests without an answer, or with one that says that it does not work, in a row until it is left alone."""
_OPEN_FIRST_S, _OPEN_MOST_S = 0.5, 30.0
_MOST_REFUSALS = 20
"""Answers in a row that refuse us, whatever the events: then a person has to look."""
_LONGEST_QUIET_S = 60.0
"""For so long an endpoint that asks for it is left alone; its events may wait in a retry topic for longer."""
_AGES_EVERY_S = 1.0
_FEWER = 8
"""So many times fewer events go in a batch with one that has waited in a retry topic, for each pause."""
_NO_VALUE = "an event without a value has no body"
_GZIP_APART = 32 * 2**10
"""Larger bodies are compressed in a thread: the loop has other routes to serve."""

Settle = Callable[[Sequence[Event]], None]


class Lane:
    """On the loop's thread."""

    def __init__(
        self,
        plan: LanePlan,
        client: HttpClient,
        outbox: Outbox,
        order: Order,
        meter: Meter,
        settle: Settle,
        hold: Callable[[str], None],
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """`settle` is called with events that are delivered, or stand in another topic. `hold`: nothing more may be
        sent until a person resumes the route."""
        self._plan = plan
        self._client = client
        self._outbox = outbox
        self._order = order
        self._meter = meter
        self._settle_events = settle
        self._hold = hold
        self._may_send = may_send
        self._loop = asyncio.get_running_loop()
        self._table = Table(plan.split, plan.retry_statuses)
        self._signer = Signer(plan.secrets, plan.where) if plan.secrets else None
        self._make_body, media_type = BODIES[plan.format]
        self._media_type = plan.content_type or media_type
        self._queue: deque[Event] = deque()
        self._again: list[tuple[float, int, Batch]] = []
        """Batches that are sent again, by when."""
        self._was_again = False
        """What was sent last had been sent before."""
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._ages_looked_at = 0.0
        self._refusals = 0
        """Answers that refuse us, in a row."""
        self._quiet_until = 0.0
        self.breaker = Breaker(_FAILURES, Backoff(_OPEN_FIRST_S, _OPEN_MOST_S))
        self.concurrency = Concurrency(plan.parallel)
        self._rate = Rate(plan.per_second)
        self.failure: EnrichError | None = None
        """Why nothing is sent any more."""
        self.trouble: str | None = None
        """Why the last request failed, until one succeeds."""
        self.trouble_ms: int | None = None
        self.is_held = False
        self._is_closed = False
        self._too_old = f"older than {duration_text(plan.max_age)}"

    # What the route's thread asks for, by way of the loop.

    def take(self, events: Iterable[Event]) -> None:
        self._queue.extend(events)
        self._pump()

    def resume(self) -> None:
        """What was settled is committed."""
        self._pump()

    def withdraw(self, leases: Sequence[Lease]) -> None:
        """Begins nothing more of these; what is under way goes on."""
        for lease in leases:
            lease.is_over = True
            if lease.route_topic is None:
                self._order.forget(lease.partition[1])
        self._queue = deque(event for event in self._queue if not event.lease.is_over)
        for _, _, batch in self._again:
            self._drop_withdrawn(batch)

    async def close(self) -> None:
        for timer in (self._timer, self._look_timer):
            if timer is not None:
                timer.cancel()
        self._is_closed = True
        self._queue.clear()
        self._again.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    def fails(self, error: BaseException) -> None:
        """Nothing is sent any more."""
        _log.error("this is a bug in enrich; please report it", exc_info=error, extra={"where": self._plan.where})
        self.failure = Fatal(f"a bug in enrich: {type(error).__name__}", where=self._plan.where)

    @property
    def now_s(self) -> float:
        return self._loop.time()

    @property
    def waiting(self) -> int:
        """Events that wait to be sent, for the first time or again."""
        return len(self._queue) + sum(len(batch.events) for _, _, batch in self._again)

    @property
    def quiet_s(self) -> float:
        """For how long the endpoint still wants to be left alone."""
        return max(0.0, self._quiet_until - self._loop.time())

    # Sending.

    def _pump(self) -> None:
        """Begins all requests that may begin now."""
        try:
            if not self._is_closed:
                self._pump_now(self._loop.time())
        except Exception as error:  # noqa: BLE001 - the top of what the loop calls: no error may stop a route silently
            self.fails(error)

    def _pump_now(self, now: float) -> None:
        self._look_at_ages(now)
        while not self.is_held and self.failure is None:
            if not self.concurrency.has_room or self._may_be_refused() or not self._may_send():
                return  # the end of a request comes back here, and so does a commit
            wait_s = max(self._quiet_until - now, self.breaker.wait_s(now), self._rate.wait_s(now))
            batch = self._next(now) if wait_s <= 0 else None
            if batch is None:
                if wait_s > 0 and (self._queue or self._again):
                    self._pump_in(wait_s)
                return
            self._begin(batch, now)

    def _may_be_refused(self) -> bool:
        """Whether as many are refused or under way as it takes to hold the route: the next waits for their answers."""
        return self._refusals > 0 and self._refusals + self.concurrency.under_way >= _MOST_REFUSALS

    def _pump_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(seconds, 0.001), self._pump)

    def _next(self, now: float) -> Batch | None:
        """The batch that is sent next. None if none is due: the timer is set for it."""
        # In turns, and after a pause of the breaker something new: an endpoint may answer all but a few, which would
        # look as if it were down, and keep all others waiting.
        is_new = self._was_again or self.breaker.state is not State.CLOSED
        for find in (self._next_new, self._next_again) if is_new else (self._next_again, self._next_new):
            if (batch := find(now)) is not None:
                self._was_again = batch.failed is not None
                return batch
        if self._again:
            due_in_s = self._again[0][0] - now
            if self._queue:
                due_in_s = min(due_in_s, self._due_in_s(now))
            self._pump_in(due_in_s)
        return None

    def _next_again(self, now: float) -> Batch | None:
        while self._again and self._again[0][0] <= now:
            again = heapq.heappop(self._again)[2]
            self._drop_withdrawn(again)
            if again.events:
                return again
            self._end(again)
        return None

    def _next_new(self, now: float) -> Batch | None:
        while self._queue:
            due_in_s = self._due_in_s(now)
            if len(self._queue) < self._plan.events and due_in_s > 0 and not self._is_large():
                self._pump_in(due_in_s)
                return None
            events = self._taken()
            if events:
                return Batch(events)
        return None

    def _due_in_s(self, now: float) -> float:
        """How long the first event still waits for others. The time since it came into its topic counts."""
        first = self._queue[0]
        wait_s = self._plan.wait_s
        since_written_s = time.time() - first.message.timestamp()[1] / 1000
        return wait_s - max(now - first.came_s, min(since_written_s, wait_s))

    def _is_large(self) -> bool:
        size = 0
        for event in self._queue:
            size += event.size
            if size >= self._plan.bytes:
                return True
        return False

    def _taken(self) -> list[Event]:
        """As many of the first events as may go into one request now."""
        plan, events, size, origins, most = self._plan, list[Event](), 0, Origins(), self._plan.events
        self._order.begin_batch()
        oldest_ms = self._oldest_ms()
        while self._queue and len(events) < most:
            event = self._queue[0]
            if event.since_ms < oldest_ms or not has_body(event):
                self._queue.popleft()
                self._bury([event], self._too_old if event.since_ms < oldest_ms else _NO_VALUE)
                continue
            size += event.size + 1
            # The more often it was refused the fewer go with it: in the end it is alone, and takes no others along.
            most = min(most, max(1, plan.events // _FEWER ** min(event.tries, 5)))
            if events and (size > plan.bytes or len(events) >= most or not origins.has_room(event)):
                break
            self._queue.popleft()
            match self._order.judge(event):
                case Verdict.goes:
                    origins.add(event)
                    events.append(event)
                case Verdict.diverted:
                    self._divert(event)
                case Verdict.known:
                    event.became = Became.waits
                    self._settle_events([event])
                case Verdict.behind:
                    pass
        return events

    def _begin(self, batch: Batch, now: float) -> None:
        batch.began_s = now if batch.began_s is None else batch.began_s
        batch.tries += 1
        for event in batch.events:
            event.lease.under_way += 1
        self.concurrency.begin()
        self._rate.sent(now)
        self.breaker.sent(now)
        task = self._loop.create_task(self._send(batch))
        self._tasks.add(task)
        task.add_done_callback(self._sent)

    async def _send(self, batch: Batch) -> None:
        events = batch.events
        try:
            await self._send_and_conclude(batch)
        finally:
            for event in events:
                event.lease.under_way -= 1
        self._pump()

    async def _send_and_conclude(self, batch: Batch) -> None:
        began = self._loop.time()
        try:
            outcome = await self._posted(batch)
        except EnrichError as error:
            self.failure = error
            outcome = Outcome(Meaning.later, error.what, is_trouble=True)
        now = self._loop.time()
        self.concurrency.end(now - began, now, is_good=not outcome.is_trouble)
        self._meter.count("requests")
        self._note(outcome, now)
        self._conclude(batch, outcome, now)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fails(error)

    async def _posted(self, batch: Batch) -> Outcome:
        body = self._make_body(batch.events)
        headers = {"content-type": self._media_type, "enrich-origins": origins_of(batch.events)}
        if self._plan.gzip:
            headers["content-encoding"] = "gzip"
            body = await asyncio.to_thread(_zipped, body) if len(body) > _GZIP_APART else _zipped(body)
        if self._signer is not None:
            headers |= self._signed(batch, body, self._signer)
        try:
            answer = await self._client.post(body, headers)
        except NoAnswer as error:
            return of_no_answer(error)
        self._meter.count("bytes_sent", len(body))
        return self._table.of(answer, len(batch.events))

    def _signed(self, batch: Batch, body: bytes, signer: Signer) -> Mapping[str, str]:
        return signer.headers(batch.message_id(self._plan.sender), int(time.time()), body)

    # What becomes of a request.

    def _note(self, outcome: Outcome, now: float) -> None:
        if outcome.is_trouble:
            self.breaker.failed(now)
            self.trouble, self.trouble_ms = outcome.reason, time.time_ns() // 10**6
            self._meter.count("requests_failed")
        else:
            self.breaker.succeeded()
        if outcome.meaning is Meaning.delivered:
            self._refusals, self.trouble = 0, None
        elif outcome.refuses_us:
            self._refusals += 1
            self.trouble, self.trouble_ms = outcome.reason, time.time_ns() // 10**6
        if outcome.retry_after_s is not None and outcome.is_trouble:
            self._quiet_until = max(self._quiet_until, now + min(outcome.retry_after_s, _LONGEST_QUIET_S))

    def _conclude(self, batch: Batch, outcome: Outcome, now: float) -> None:
        match outcome.meaning:
            case Meaning.delivered:
                self._meter.count("events_delivered", len(batch.events))
                self._settle(batch.events)
                self._end(batch)
            case Meaning.halve:
                self._meter.count("batches_halved")
                self._send_again(batch.halved(), now)
            case Meaning.dead:
                self._bury(batch.events, outcome.reason)
                self._end(batch)
                if self._refusals >= _MOST_REFUSALS:
                    self.is_held = True
                    self._hold(f"{outcome.reason}, {_MOST_REFUSALS} times in a row")
            case Meaning.later:
                self._try_later(batch, outcome, now)

    def _try_later(self, batch: Batch, outcome: Outcome, now: float) -> None:
        plan, began_s = self._plan, now if batch.began_s is None else batch.began_s
        batch.failed = outcome
        pause_s = outcome.retry_after_s
        if pause_s is None:
            pause_s = plan.backoff_s(batch.tries)
            is_spent = batch.tries >= plan.tries
        else:
            batch.tries -= 1  # the endpoint says when: that is no try
            is_spent = False
        if is_spent or now + pause_s > began_s + plan.budget_s:
            self._drop_withdrawn(batch)  # as in `_send_again`: they would stand in the retry topic twice
            self._move(batch, outcome)
            self._end(batch)
        else:
            self._meter.count("retries")
            self._send_again(batch, now + pause_s)

    def _send_again(self, batch: Batch, due: float) -> None:
        # Its partition may have been given up while it was under way: whoever has it now sends these events, and here
        # they must not be moved either.
        self._drop_withdrawn(batch)
        heapq.heappush(self._again, (due, next(self._numbers), batch))

    def _end(self, batch: Batch) -> None:
        """All its events are settled, or on their way to another topic."""
        while (following := batch.following()) is not None:  # the other part of a batch that was halved is next
            self._drop_withdrawn(following)
            waiting = [event for event in following.events if self._order.has_to_wait(event)]
            for event in waiting:
                self._divert(event)
            if waiting:
                following.before = [*following.before, *waiting]
                following.events = [event for event in following.events if not self._order.has_to_wait(event)]
            if following.events:
                self._send_again(following, self._loop.time())
                return
            batch = following
        self._queue.extendleft(reversed(self._order.finished([*batch.before, *batch.events])))

    def _move(self, batch: Batch, outcome: Outcome) -> None:
        """To a retry topic, or to the DLQ if all pauses are used up."""
        reason = outcome.reason
        for event in batch.events:
            pause = self._plan.pause_after(event.tries, outcome.retry_after_s)
            if pause is None:
                self._bury([event], f"{reason}; it was tried again after each pause")
                continue
            self._order.moves(event, pause)
            tries = event.tries + 1 if outcome.retry_after_s is None else event.tries
            self._wait_for_pause(event, pause, tries, "events_retried_later")

    def _divert(self, event: Event) -> None:
        pause = self._order.pause_of(event)
        self._order.moves(event, pause)
        self._wait_for_pause(event, pause, event.tries, "events_diverted")

    def _wait_for_pause(self, event: Event, pause: int, tries: int, counted: str) -> None:
        """It is counted under this name once the retry topic has it: one that is too large for it is a dead letter, and
        only that."""

        def too_large() -> None:
            event.lease.under_way -= 1
            self._bury([event], "it is too large for the retry topic")

        def begin(done: Callable[[], None]) -> None:
            def taken(at: int) -> None:
                self._meter.count(counted)
                self._order.stands(event, pause, at)
                done()

            self._outbox.retry(event, pause, tries, too_large, taken)

        self._leave(event, begin)

    def _bury(self, events: Sequence[Event], reason: str) -> None:
        self._meter.count("dead_letters", len(events))
        for event in events:
            self._leave(event, partial(self._outbox.bury, event, reason))
            self._order.settled(event)

    def _leave(self, event: Event, begin: Callable[[Callable[[], None]], None]) -> None:
        """It is under way until the other topic has it."""
        event.lease.under_way += 1

        def done() -> None:
            event.lease.under_way -= 1
            self._settle_events([event])

        begin(done)

    def _settle(self, events: Sequence[Event]) -> None:
        for event in events:
            self._order.settled(event)
        self._settle_events(events)

    def _look_at_ages(self, now: float) -> None:
        """Also while nothing may be sent: what is too old does not wait for the endpoint, and what was tried for long
        enough does not keep the offset where it is."""
        if self._look_timer is None and (self._queue or self._again):
            self._look_timer = self._loop.call_later(_AGES_EVERY_S, self._look_again)
        if now - self._ages_looked_at < _AGES_EVERY_S:
            return
        self._ages_looked_at = now
        oldest_ms = self._oldest_ms()
        while self._queue and self._queue[0].since_ms < oldest_ms:
            event = self._queue.popleft()
            self._bury([event], self._too_old)
        if self._is_left_alone(now):
            spent = [entry for entry in self._again if self._is_spent(entry[2], now)]
            self._again = [entry for entry in self._again if not self._is_spent(entry[2], now)]
            heapq.heapify(self._again)
            for _, _, batch in spent:
                if batch.failed is not None:
                    self._move(batch, batch.failed)
                self._end(batch)
        for _, _, batch in self._again:
            old = [event for event in batch.events if event.since_ms < oldest_ms]
            if old:
                batch.events = [event for event in batch.events if event.since_ms >= oldest_ms]
                batch.before = [*batch.before, *old]
                self._bury(old, self._too_old)

    def _look_again(self) -> None:
        self._look_timer = None
        self._pump()

    def _is_left_alone(self, now: float) -> bool:
        return self.breaker.state is not State.CLOSED or self._quiet_until > now

    def _is_spent(self, batch: Batch, now: float) -> bool:
        return batch.failed is not None and batch.began_s is not None and now > batch.began_s + self._plan.budget_s

    def _oldest_ms(self) -> float:
        return time.time() * 1000 - self._plan.max_age.total_seconds() * 1000

    def _drop_withdrawn(self, batch: Batch) -> None:
        batch.events = [event for event in batch.events if not event.lease.is_over]
        for following in batch.then:
            self._drop_withdrawn(following)


def _zipped(body: bytes) -> bytes:
    return gzip.compress(body, compresslevel=5, mtime=0)

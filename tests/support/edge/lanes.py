"""A lane of expel without brokers, sockets and waiting: a clock that jumps, and models of its topics and endpoint."""

import asyncio
import random
import selectors
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

from confluent_kafka import Message

from edge_service.expel.lane.events import Event, Lease
from edge_service.expel.lane.lane import COUNTED, Lane
from edge_service.expel.lane.order import NOT_KNOWN, AnyOrder, KeyOrder, Order, Waiting
from edge_service.expel.lane.outbox import Outbox
from edge_service.expel.plan import LanePlan
from enrich.config.sections.edges.expel import HttpFormat
from enrich.delivery.partitions.window import Window
from enrich.delivery.plan import PartitionId
from enrich.endpoints.http import Answer, HttpClient, NoAnswer
from enrich.kafka.records import headers_of
from enrich.kafka.retries import retry_headers
from enrich.service.meters import Meter

# The age of an event goes by the clock of the machine: so it plays no part.
_LATER = 1, (time.time_ns() // 10**6) + 10**9
TOPIC, RETRY_OUT = "events", "retry_out"
_T = TypeVar("_T")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: what the loop would wait, its clock moves on."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everything stands still")
        self.now_s += timeout
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run_jumping(work: Coroutine[Any, Any, _T], seed: object) -> _T:
    """As `asyncio.run`, in no time, and with the same pauses for the same seed."""
    random.seed(str(seed))
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)


def lane_plan(**more: Any) -> LanePlan:
    plan: dict[str, Any] = {
        "where": "expel.model",
        "sender": "model.expel.model",
        "format": HttpFormat.ndjson,
        "content_type": None,
        "gzip": False,
        "secrets": (),
        "events": 5,
        "bytes": 2**20,
        "wait_s": 0.02,
        "parallel": 4,
        "per_second": None,
        "tries": 2,
        "first_s": 0.05,
        "longest_s": 0.5,
        "budget_s": 10.0,
        "split": (400, 413, 422),
        "retry_statuses": (),
        "pauses": (timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=5), timedelta(seconds=3)),
        "max_age": timedelta(days=3),
    }
    return LanePlan(**(plan | more))


Decide = Callable[[Sequence[int]], int | None]
"""The status for a request with these ids. None: it is taken, and the answer is lost."""


@dataclass
class _Committed:
    position: int = 0
    done: tuple[tuple[int, int], ...] = ()

    def has(self, offset: int) -> bool:
        return offset < self.position or any(first <= offset <= last for first, last in self.done)


@dataclass
class LaneModel:
    """The topics of a route and its endpoint. An event's id is its value."""

    chance: random.Random
    decide: Decide
    plan: LanePlan
    keeps_order: bool
    partitions: int = 2
    logs: dict[PartitionId, list[Message]] = field(default_factory=lambda: defaultdict(list))
    committed: dict[PartitionId, _Committed] = field(default_factory=lambda: defaultdict(_Committed))
    dead: Counter[int] = field(default_factory=Counter)
    came: list[int] = field(default_factory=list)
    """The ids that the endpoint has taken, in the order in which it took them."""
    over: list[int] = field(default_factory=list)
    """The ids that the endpoint has taken or that are dead, in this order."""
    waiting: dict[tuple[int, int], deque[tuple[float, Message]]] = field(default_factory=lambda: defaultdict(deque))
    """By pause and partition, with when each is forwarded."""
    written: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By pause and partition: how many have ever waited there."""
    loses: float = 0.0
    """The share of those that wait which the brokers remove before they are forwarded."""
    lost: set[int] = field(default_factory=set)
    """Their ids."""
    latencies: Sequence[float] = (0.0, 0.01, 0.1)
    """Of half a request."""
    too_large: Collection[int] = ()
    """The ids that no retry topic takes."""
    retry_after: str | None = None
    """What the endpoint says with a 503."""
    holds: list[str] = field(default_factory=list)
    requests: list[tuple[float, Sequence[int]]] = field(default_factory=list)
    """When each came, and what was in it."""
    _lane: "_Running | None" = None

    def produce(self, key: bytes | None, value: int, partition: int) -> None:
        self._append((TOPIC, partition), key, b"%d" % value, [])

    def _append(self, place: PartitionId, key: bytes | None, value: bytes | None, headers: list[Any]) -> None:
        log = self.logs[place]
        message = Message(
            topic=place[0],
            partition=place[1],
            offset=len(log),
            key=key,
            value=value,
            headers=headers,
            timestamp=_LATER,
        )
        log.append(message)
        if self._lane is not None:
            self._lane.offer(place, [message])

    async def start(self) -> None:
        self._lane = _Running(self)
        for place in [(topic, number) for topic in (TOPIC, RETRY_OUT) for number in range(self.partitions)]:
            self._lane.begin(place)

    async def stop(self) -> None:
        """As at a rebalance: what is under way is waited for, and committed."""
        lane, self._lane = self._lane, None
        assert lane is not None
        await lane.stop()

    async def kill(self) -> None:
        lane, self._lane = self._lane, None
        assert lane is not None
        lane.is_dead = True
        await lane.lane.close()

    def lose(self) -> None:
        """All partitions, at once: what is under way is not waited for."""
        assert self._lane is not None
        self._lane.lose()

    def commit(self) -> None:
        if self._lane is not None:
            self._lane.commit()

    def forward(self, now: float) -> None:
        """What the retrier does."""
        for (_, number), line in self.waiting.items():
            while line and line[0][0] <= now:
                message = line.popleft()[1]
                if self.loses and self.chance.random() < self.loses:
                    self.lost.add(int(message.value() or b""))
                    continue
                self._append((RETRY_OUT, number), _bytes(message.key()), _bytes(message.value()), headers_of(message))

    def known(self, number: int) -> Waiting:
        """As `waiting_events` finds it."""
        place = RETRY_OUT, number
        found, copies = [], dict[int, int]()
        for (pause, one), line in self.waiting.items():
            if one == number:
                found += [(_event(message), pause, message.offset() or 0) for _, message in line]
        copies |= {event.place[2]: len(self.logs[place]) for event, *_ in found}
        for event in map(_event, self.logs[place]):
            if not self.committed[place].has(event.offset) and event.offset >= copies.get(event.place[2], 0):
                found.append((event, min(max(event.tries - 1, 0), len(self.plan.pauses) - 1), NOT_KNOWN))
                copies[event.place[2]] = event.offset
        events = [(event.key, event.place[2], pause, at) for event, pause, at in found if event.key is not None]
        return Waiting(events, copies)

    @property
    def lane(self) -> Lane:
        assert self._lane is not None
        return self._lane.lane

    @property
    def moved(self) -> list[int]:
        """The ids that wait for a pause."""
        return sorted(int(message.value() or b"") for line in self.waiting.values() for _, message in line)

    def position(self, number: int = 0) -> int:
        """What could be committed now."""
        assert self._lane is not None
        return self._lane.windows[TOPIC, number].position

    @property
    def is_done(self) -> bool:
        """Whether each event is delivered or dead, and known to be."""
        return (
            self._lane is not None
            and not any(self.waiting.values())
            and all(window.position == len(self.logs[place]) for place, window in self._lane.windows.items())
        )


def _event(message: Message) -> Event:
    place = message.topic() or "", message.partition() or 0
    return Event(message, Lease(place, None if place[0] == TOPIC else TOPIC), 0.0)


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


class _Running:
    """A lane from its start to its end, with what its route's thread does."""

    def __init__(self, model: LaneModel) -> None:
        self.model = model
        self.is_dead = False
        self.windows: dict[PartitionId, Window] = {}
        self._leases: dict[PartitionId, Lease] = {}
        self._free_s: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._loop = asyncio.get_running_loop()
        self._order: Order = KeyOrder() if model.keeps_order else AnyOrder()
        client, outbox = cast("HttpClient", self), cast("Outbox", self)
        self.lane = Lane(
            model.plan, client, outbox, self._order, Meter("events_delivered", COUNTED), self._settle, self._hold
        )

    def begin(self, place: PartitionId) -> None:
        if isinstance(self._order, KeyOrder) and place[0] == TOPIC:
            self._order.knows(place[1], self.model.known(place[1]))
        committed = self.model.committed[place]
        self.windows[place] = Window(committed.position, committed.done)
        self._leases[place] = Lease(place, TOPIC if place[0] == RETRY_OUT else None)
        self.offer(place, self.model.logs[place][committed.position :])

    def offer(self, place: PartitionId, messages: Sequence[Message]) -> None:
        window, lease = self.windows[place], self._leases[place]
        fresh = [message for message in messages if window.take(message.offset() or 0, 1)]
        self.lane.take([Event(message, lease, self._loop.time()) for message in fresh])

    def commit(self) -> None:
        for place, window in self.windows.items():
            self.model.committed[place] = _Committed(window.position, window.settled_beyond())

    def lose(self) -> None:
        self.lane.withdraw(list(self._leases.values()))

    async def stop(self) -> None:
        leases = list(self._leases.values())
        self.lose()
        while any(lease.under_way for lease in leases):
            await asyncio.sleep(0.01)
        self.commit()
        await self.lane.close()

    def _settle(self, events: Sequence[Event]) -> None:
        for event in events:
            self.windows[event.lease.partition].settle([event.offset])

    def _hold(self, reason: str) -> None:
        self.model.holds.append(reason)

    # In the place of the HTTP client.

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:  # noqa: ARG002 - the client's
        chance, ids = self.model.chance, [int(line) for line in body.split()]
        self.model.requests.append((self._loop.time(), ids))
        await asyncio.sleep(chance.choice(self.model.latencies))
        status = self.model.decide(ids)
        if status is None or 200 <= status <= 299:
            self.model.came += ids
            self.model.over += ids
        await asyncio.sleep(chance.choice(self.model.latencies))
        if status is None:
            raise NoAnswer("the answer is lost", may_have_arrived=True)
        return Answer(status, self.model.retry_after if status == 503 else None, "")

    async def close(self) -> None:
        pass

    # In the place of the outbox.

    def retry(
        self, event: Event, pause: int, tries: int, too_large: Callable[[], None], taken: Callable[[int], None]
    ) -> None:
        def write() -> None:
            if self.is_dead:
                return
            if int(event.value or b"-1") in self.model.too_large:
                too_large()
                return
            headers = retry_headers(event.place, event.since_ms, tries)
            at = self.model.written[place]
            self.model.written[place] += 1
            message = Message(
                topic="retry_in",
                partition=event.place[1],
                offset=at,
                key=event.key,
                value=event.value,
                headers=[*headers],
            )
            due = self._loop.time() + self.model.plan.pauses[pause].total_seconds()
            self.model.waiting[place].append((due, message))
            self._after(lambda: taken(at))

        # A producer writes to a partition in order.
        place = pause, event.place[1]
        self._free_s[place] = max(self._free_s[place] + 1e-6, self._loop.time() + self.model.chance.choice([0.0, 0.05]))
        self._loop.call_at(self._free_s[place], write)

    def bury(self, event: Event, reason: str, done: Callable[[], None]) -> None:  # noqa: ARG002 - the outbox's
        # At once: the lane lets later events of its key go before it is acknowledged.
        one = int(event.value or b"-1")
        self.model.dead[one] += 1
        self.model.over.append(one)
        self._after(done)

    def _after(self, then: Callable[[], None]) -> None:
        self._loop.call_later(self.model.chance.choice([0.0, 0.005, 0.05]), then)

"""One entry of ingest: a path, who may send to it, and the topic that its events go to."""

import asyncio
import json
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from http import HTTPStatus

from edge_service.ingest.entry.answering import Answering, Once
from edge_service.ingest.entry.committing import Writer, Written
from edge_service.ingest.entry.fetching import Fetching
from edge_service.ingest.entry.figures import Figures
from edge_service.ingest.entry.letters import letters_of, without_bad
from edge_service.ingest.entry.repeats import Repeats
from edge_service.ingest.entry.tallying import Tallying
from edge_service.ingest.reading.bodies import plain
from edge_service.ingest.reading.events import Events, JsonEvents
from edge_service.ingest.reading.formats import Bodies, FetchFirst, JsonBodies
from edge_service.ingest.reading.refusals import MOST_NAMED, BadEvent, Refused, named
from edge_service.ingest.senders.senders import Everybody, Senders, TokenHolders
from edge_service.ingest.wire.connection import Answer, Done, Later, Request, busy, problem

_log = logging.getLogger("enrich.ingest")

_LARGEST_UNLESS_KNOWN = 999_000
"""What a topic takes by Kafka's defaults."""

Field = tuple[str, ...]


@dataclass(frozen=True)
class EndpointPlan:
    path: str
    topic: str
    key: Field | None
    event_time: Field | None
    tokens: Collection[str] = field(repr=False)
    most_body: int
    most_inflated: int
    most_events: int
    in_flight: int
    body_deadline_s: float
    deadline_s: float
    dlq: str | None = None
    """Where bad events go. None: a request with a bad event is refused."""
    pipeline: str = ""
    name: str = ""


class IngestEndpoint:
    """See `connection.Endpoint`. For one event loop."""

    def __init__(
        self,
        plan: EndpointPlan,
        writer: Writer,
        loop: asyncio.AbstractEventLoop,
        *,
        bodies: Bodies | None = None,
        senders: Senders | None = None,
        tallying: Tallying | None = None,
    ) -> None:
        """`bodies`: by default JSON. `senders`: by default those who have one of the plan's tokens, or everybody."""
        self.plan = plan
        self.body_deadline_s = plan.body_deadline_s
        self.figures = Figures()
        self.largest = _LARGEST_UNLESS_KNOWN
        """How many bytes of key and value the topic takes together."""
        self._writer = writer
        self._loop = loop
        self._bodies = bodies or JsonBodies(JsonEvents(plan.key, plan.event_time, plan.most_events))
        self._senders = senders or (TokenHolders(plan.tokens) if plan.tokens else Everybody())
        self._repeats = Repeats(loop.time)
        self.tallying = tallying
        self._fetching = Fetching(self._bodies.fetch, loop)

    # Before the body is read.

    def admit(self, request: Request) -> Answer | Later | None:
        if request.path != self.plan.path:
            return problem(HTTPStatus.NOT_FOUND, f"events are taken at {self.plan.path}")
        if request.method != "POST":
            answer = problem(HTTPStatus.METHOD_NOT_ALLOWED, "events are sent with POST")
            answer.headers = ((b"allow", b"POST"),)
            return answer
        return self._senders.admit(request, lambda: self._misfit(request))

    def _misfit(self, request: Request) -> Answer | None:
        announced = request.headers.get(b"content-length")
        if announced is not None and int(announced) > self.plan.most_body:
            return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {self.plan.most_body} bytes")
        if _media_type(request) not in self._bodies.types:
            listed = ", ".join(kind.decode() for kind in self._bodies.types)
            return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the media type must be one of {listed}")
        return None

    def body_deadline_of(self, request: Request) -> float:  # noqa: ARG002 - the same for all
        return self.plan.body_deadline_s

    def most_body(self, request: Request) -> int:  # noqa: ARG002 - the same for all
        return self.plan.most_body

    # What is held.

    def reserve(self, request: Request, count: int) -> bool:  # noqa: ARG002 - the same for all
        if self.figures.held + count > self.plan.in_flight:
            return False
        self.figures.held += count
        return True

    def release(self, request: Request, count: int) -> None:  # noqa: ARG002 - the same for all
        self.figures.held -= count

    def count(self, request: Request | None, answer: Answer) -> None:  # noqa: ARG002 - whatever was asked
        answers = self.figures.answers
        answers[answer.status] = answers.get(answer.status, 0) + 1

    # The whole request.

    def take(self, request: Request, done: Done) -> None:
        self.figures.under_way += 1
        inflated = 0
        late: asyncio.TimerHandle | None = None

        def answered(answer: Answer) -> None:
            if late is not None:
                late.cancel()
            self.figures.under_way -= 1
            self.release(request, inflated)
            done(answer)

        own = Once(answered)
        answer: Answering = own
        try:
            first = self._repeats.once(request, own)
            if first is None:
                late = None if own.is_given else self._late(own)
                return
            answer = first
            too_much = self._senders.refuse(request)
            if too_much is not None:
                answer(too_much)
                return
            self._senders.came(request)
            coding = request.headers.get(b"content-encoding", b"").decode("latin-1")
            body = plain(request.body, coding, self.plan.most_inflated)
            # What was sent is held already. Small bodies that inflate to large ones count as these do.
            if len(body) > len(request.body):
                if not self.reserve(request, len(body) - len(request.body)):
                    answer(busy())
                    return
                inflated = len(body) - len(request.body)
            self._read(request, body, answer)
        except Refused as refused:
            answer(_refusal(refused))
        except Exception:  # noqa: BLE001 - the top of a request: its sender gets an answer, and the others go on
            _log.exception("this is a bug in enrich; please report it")
            answer(problem(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug of this server; the events may be written"))

    def _read(self, request: Request, body: bytes, done: Answering) -> None:
        """Raises Refused."""
        try:
            events = self._bodies.read(body, _media_type(request))
        except FetchFirst as first:
            self._fetch(request, body, first.what, done)
            return
        if len(body) * 2 > self.largest:  # else no event with its key can be larger
            events = _without_oversized(events, self.largest)
        if events.bad and self.plan.dlq is None:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, named(events.bad), events.bad)
        count = len(events.values)
        if not self._writer.has_room(count):
            done(busy())
            return
        self._senders.charge(request, count)
        self._write(request, events, done)

    def _fetch(self, request: Request, body: bytes, what: int, done: Answering) -> None:
        """Reads the body once what it needs is there."""

        def fetched(why_not: str | None) -> None:
            if why_not is not None:
                done(_unread(why_not))
                return
            try:
                self._read(request, body, done)
            except Refused as refused:
                done(_refusal(refused))

        self._fetching.wait_for(what, fetched, self.plan.deadline_s)

    def _write(self, request: Request, events: Events, answer: Answering) -> None:
        began = self._loop.time()
        good, letters = events, []
        if events.bad and self.plan.dlq is not None:
            good = without_bad(events)
            letters = letters_of(events, pipeline=self.plan.pipeline, ingest=self.plan.name, topic=self.plan.topic)
        size = sum(map(len, good.values))
        tallying, came_ms = self.tallying, time.time_ns() // 10**6

        def written(result: Written) -> None:
            timer.cancel()
            if result.failure is not None:
                answer(_perhaps(result.failure.what))  # a sender need not know the topic
                return
            self.figures.acknowledged(self._loop.time() - began)
            if tallying is not None:
                tallying.answered(good.times_ms, came_ms, time.time_ns() // 10**6)
            self.figures.events += len(good.values)
            self.figures.bytes += size
            self.figures.dead += len(letters)
            answer(_accepted(len(good.values), result.origins, events))

        timer = self._late(answer)
        wants_origins = b"return=representation" in request.headers.get(b"prefer", b"")
        whole = Written(len(events.values), written, with_origins=wants_origins)
        reports = () if tallying is None else tallying.reports_of(good.times_ms, came_ms, whole)
        self._writer.write(self.plan.topic, good, whole, came_ms, reports)
        if self.plan.dlq is not None and letters:
            self._writer.write_letters(self.plan.dlq, letters, whole)

    def _late(self, answer: Answering) -> asyncio.TimerHandle:
        """Until then it should be known what became of a request."""
        why = "the brokers did not acknowledge it in time"
        return self._loop.call_later(self.plan.deadline_s, lambda: answer.for_now(_perhaps(why)))


def _without_oversized(events: Events, most: int) -> Events:
    """The same, with those that the topic would not take among the bad ones."""
    known = {each.index for each in events.bad}
    oversized = [
        BadEvent(index, None, f"is larger than {most} bytes, which is what the topic takes")
        for index, (value, key) in enumerate(zip(events.values, events.keys, strict=True))
        if len(value) + len(key or b"") > most and index not in known
    ]
    if not oversized:
        return events
    bad = sorted([*events.bad, *oversized], key=lambda each: each.index)
    return Events(events.values, events.keys, events.times_ms, bad)


def _media_type(request: Request) -> bytes:
    return request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _accepted(count: int, origins: list[str | None] | None, events: Events) -> Answer:
    if origins is None and not events.bad:
        return Answer(HTTPStatus.OK, b'{"accepted": %d}' % count)
    body: dict[str, object] = {"accepted": count}
    if events.bad:
        body |= {"dead": len(events.bad), "errors": _errors(events.bad)}
    if origins is not None:
        bad, written = {each.index for each in events.bad}, iter(origins)
        body["origins"] = [None if index in bad else next(written) for index in range(len(events.values))]
    return Answer(HTTPStatus.OK, json.dumps(body).encode())


def _perhaps(why: str) -> Answer:
    return _unavailable(f"the events may be written, or a part of them: {why}; send them again")


def _unread(why: str) -> Answer:
    return _unavailable(f"nothing was written: {why}; send it again")


def _unavailable(what: str) -> Answer:
    answer = problem(HTTPStatus.SERVICE_UNAVAILABLE, what)
    answer.headers = ((b"retry-after", b"1"),)
    return answer


def _refusal(refused: Refused) -> Answer:
    if not refused.bad:
        return problem(refused.status, refused.what)
    return problem(refused.status, refused.what, errors=_errors(refused.bad), bad=len(refused.bad))


def _errors(bad: "Collection[BadEvent]") -> list[dict[str, object]]:
    return [{"index": each.index, "field": each.field, "reason": each.reason} for each in list(bad)[:MOST_NAMED]]

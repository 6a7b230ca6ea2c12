"""One endpoint: a path, who may send to it, and the topic that its events go to."""

import asyncio
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus

from edge_service.ingest.bodies import plain
from edge_service.ingest.committing import Writer, Written
from edge_service.ingest.connection import Answer, Done, Request, busy, problem
from edge_service.ingest.events import Events, Field, JsonEvents, Shape
from edge_service.ingest.refusals import MOST_NAMED, Refused, named
from edge_service.ingest.repeats import Repeats

_SHAPES = {b"application/json": Shape.json, b"application/x-ndjson": Shape.lines}


@dataclass(frozen=True)
class EndpointPlan:
    path: str
    topic: str
    key: Field | None
    event_time: Field | None
    tokens: Collection[str]
    most_body: int
    most_inflated: int
    most_events: int
    in_flight: int
    body_deadline_s: float
    deadline_s: float


class IngestEndpoint:
    """See `connection.Endpoint`."""

    def __init__(self, plan: EndpointPlan, writer: Writer, loop: asyncio.AbstractEventLoop) -> None:
        self._plan = plan
        self._writer = writer
        self._loop = loop
        self._events = JsonEvents(plan.key, plan.event_time, plan.most_events)
        self._tokens = frozenset(_digest(token.encode()) for token in plan.tokens)
        self._repeats = Repeats(loop.time)
        self._held = 0
        self.body_deadline_s = plan.body_deadline_s
        self.accepted = 0
        self.answers: dict[int, int] = {}

    def admit(self, request: Request) -> Answer | None:
        if request.path != self._plan.path:
            return self._counted(problem(HTTPStatus.NOT_FOUND, f"events are taken at {self._plan.path}"))
        if request.method != "POST":
            answer = problem(HTTPStatus.METHOD_NOT_ALLOWED, "events are sent with POST")
            answer.headers = ((b"allow", b"POST"),)
            return self._counted(answer)
        if self._tokens and not self._is_known(request):
            answer = problem(HTTPStatus.UNAUTHORIZED, "a known token is needed: Authorization: Bearer TOKEN")
            answer.headers = ((b"www-authenticate", b"Bearer"),)
            return self._counted(answer)
        if _media_type(request) not in _SHAPES:
            listed = ", ".join(kind.decode() for kind in _SHAPES)
            return self._counted(problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the media type must be one of {listed}"))
        return None

    def most_body(self, request: Request) -> int:  # noqa: ARG002 - the same for all
        return self._plan.most_body

    def reserve(self, count: int) -> bool:
        if self._held + count > self._plan.in_flight:
            return False
        self._held += count
        return True

    def release(self, count: int) -> None:
        self._held -= count

    def take(self, request: Request, done: Done) -> None:
        try:
            first = self._repeats.once(request, done)
            if first is None:
                return
            done = first
            body = plain(
                request.body, request.headers.get(b"content-encoding", b"").decode("latin-1"), self._plan.most_inflated
            )
            events = self._events.read(body, _SHAPES[_media_type(request)])
            if events.bad:
                raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, named(events.bad), events.bad)
        except Refused as refused:
            done(self._counted(_refusal(refused)))
            return
        count = len(events.values)
        if not self._writer.has_room(count):
            done(self._counted(busy()))
            return
        self._write(request, events, done)

    def _write(self, request: Request, events: Events, done: Done) -> None:
        answered = False

        def answer(given: Answer) -> None:
            nonlocal answered
            if not answered:
                answered = True
                timer.cancel()
                done(self._counted(given))

        def written(result: Written) -> None:
            if result.failure is None:
                self.accepted += len(events.values)
                answer(_accepted(len(events.values), result.origins))
            else:
                answer(_perhaps(str(result.failure)))

        wants_origins = b"return=representation" in request.headers.get(b"prefer", b"")
        timer = self._loop.call_later(
            self._plan.deadline_s, lambda: answer(_perhaps("the brokers did not acknowledge it in time"))
        )
        self._writer.write(self._plan.topic, events, Written(len(events.values), written, with_origins=wants_origins))

    def _is_known(self, request: Request) -> bool:
        scheme, _, token = request.headers.get(b"authorization", b"").partition(b" ")
        # Of digests nobody learns anything from the time that a comparison takes.
        return scheme.lower() == b"bearer" and _digest(token.strip()) in self._tokens

    def _counted(self, answer: Answer) -> Answer:
        self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
        return answer


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _media_type(request: Request) -> bytes:
    return request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _accepted(count: int, origins: list[str | None] | None) -> Answer:
    if origins is None:
        return Answer(HTTPStatus.OK, b'{"accepted": %d}' % count)
    return Answer(HTTPStatus.OK, json.dumps({"accepted": count, "origins": origins}).encode())


def _perhaps(why: str) -> Answer:
    answer = problem(
        HTTPStatus.SERVICE_UNAVAILABLE, f"the events may be written, or a part of them: {why}; send them again"
    )
    answer.headers = ((b"retry-after", b"1"),)
    return answer


def _refusal(refused: Refused) -> Answer:
    if not refused.bad:
        return problem(refused.status, refused.what)
    errors = [{"index": bad.index, "field": bad.field, "reason": bad.reason} for bad in refused.bad[:MOST_NAMED]]
    return problem(refused.status, refused.what, errors=errors, bad=len(refused.bad))

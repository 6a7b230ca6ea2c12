"""Requests that a sender repeats, because it did not hear the answer to the first: known by their `Idempotency-Key`.

Best effort: each process knows its own requests, the newest of them, for some minutes, until it ends.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from edge_service.ingest.entry.answering import Answering
from edge_service.ingest.reading.refusals import Refused
from edge_service.ingest.wire.connection import Answer, Done, Request

KEEP_S = 600.0
_MOST = 50_000
_MOST_BYTES = 16 << 20
"""Of answers: with the origins of a thousand events one has 30 KiB."""
LONGEST_KEY = 255


class _Known:
    __slots__ = ("answer", "at", "body", "waiting")

    def __init__(self, body: bytes, at: float) -> None:
        self.body = body
        self.at = at
        self.answer: Answer | None = None
        self.waiting: list[Answering] = []


class _First:
    """See `Answering`. Of a request that may be repeated."""

    __slots__ = ("_answered", "_done")

    def __init__(self, answered: Done, done: Answering) -> None:
        self._answered = answered
        self._done = done

    def __call__(self, answer: Answer) -> None:
        self._answered(answer)

    def for_now(self, answer: Answer) -> None:
        """It stays known: what became of it is the answer to those that repeat it."""
        self._done.for_now(answer)


class Repeats:
    """Answers to requests with a key. For one thread."""

    def __init__(self, clock: Callable[[], float], most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._bytes = 0

    def once(self, request: Request, done: Answering) -> Answering | None:
        """What to call with the answer. None: the request was there before, and gets that one's answer, also if the
        first one's sender was told meanwhile that nobody knows.

        Raises Refused if the key is too long, or was another request's.
        """
        key = request.headers.get(b"idempotency-key")
        if key is None:
            return done
        if not 0 < len(key) <= LONGEST_KEY:
            raise Refused(HTTPStatus.BAD_REQUEST, f"an Idempotency-Key has 1 to {LONGEST_KEY} bytes")
        # Another sender's key is another key.
        name = hashlib.sha256(request.headers.get(b"authorization", b"") + b"\0" + key).digest()
        body = hashlib.sha256(request.body).digest()
        self._forget_old()
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Known(body, self._clock())
            return _First(partial(self._answered, name, known, done), done)
        if known.body != body:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "this Idempotency-Key was sent with another body")
        if known.answer is None:
            known.waiting.append(done)
        else:
            done(known.answer)
        return None

    def _answered(self, name: bytes, known: _Known, done: Answering, answer: Answer) -> None:
        if answer.status == HTTPStatus.OK:
            known.answer = answer
            if self._known.get(name) is known:
                self._bytes += len(answer.body)
        elif self._known.get(name) is known:
            del self._known[name]  # nothing was acknowledged: the next one is tried like a first
        waiting, known.waiting = known.waiting, []
        for each in (done, *waiting):
            each(answer)

    def _forget_old(self) -> None:
        oldest = self._clock() - KEEP_S
        while self._known:
            known = next(iter(self._known.values()))
            if known.at > oldest and len(self._known) < self._most and self._bytes <= _MOST_BYTES:
                return
            self._known.popitem(last=False)
            self._bytes -= 0 if known.answer is None else len(known.answer.body)

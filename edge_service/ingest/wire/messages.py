"""What a connection and the endpoint behind it say to each other: requests, answers, and how they look on the wire."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol


@dataclass(slots=True)
class Answer:
    status: HTTPStatus
    body: bytes = b""
    kind: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    closes: bool = False


@dataclass(slots=True)
class Request:
    """A request, whole once `Endpoint.take` gets it."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    """Names in lower case; of a name that occurs twice the last value."""
    body: bytes = b""
    sender: object = None
    """Who sends it, as far as `Endpoint.admit` has found out."""


Done = Callable[[Answer], None]
Decided = Callable[[Answer | None], None]


class Later(Protocol):
    """A request whose admission is not decided yet: what is known about its sender has to be asked for."""

    def then(self, decided: Decided) -> None:
        """Calls `decided` once, later: with an answer that refuses the request, or None."""


class Endpoint(Protocol):
    """What is behind a connection."""

    body_deadline_s: float
    """How long a head may take; no request may take longer."""

    def body_deadline_of(self, request: Request) -> float:
        """How long this request may take from its first byte to its last."""

    def admit(self, request: Request) -> Answer | Later | None:
        """Called before the body is read. An answer refuses the request. Until a later decision is known no more is
        read; what has come already is kept."""

    def most_body(self, request: Request) -> int:
        """How long the body may be."""

    def reserve(self, request: Request, count: int) -> bool:
        """Whether so many more bytes may be held. They are given back with `release`."""

    def release(self, request: Request, count: int) -> None: ...

    def count(self, request: Request | None, answer: Answer) -> None:
        """Called for each answer, whether its sender still hears it or not. None: the head was not understood."""

    def take(self, request: Request, done: Done) -> None:
        """Handles a whole request. Calls `done` once, now or later."""


def problem(status: HTTPStatus, what: str, **more: object) -> Answer:
    """An answer by RFC 9457."""
    body = {"title": status.phrase, "status": int(status), "detail": what, **more}
    return Answer(status, json.dumps(body).encode(), b"application/problem+json")


def busy() -> Answer:
    answer = problem(HTTPStatus.TOO_MANY_REQUESTS, "too much is in flight; try again")
    answer.headers = ((b"retry-after", b"1"),)
    return answer


_date: tuple[int, bytes] = (0, b"")
"""The second that it is, and its text, which is made once."""


def head_of(answer: Answer, closes: bool) -> bytes:
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = now, formatdate(now, usegmt=True).encode()
    status = answer.status
    extra = b"".join(b"%b: %b\r\n" % header for header in answer.headers)
    return b"HTTP/1.1 %d %b\r\ndate: %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n" % (
        status,
        status.phrase.encode(),
        _date[1],
        answer.kind,
        len(answer.body),
        extra,
        b"connection: close\r\n" if closes else b"",
    )

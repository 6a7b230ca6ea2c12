"""Decides what becomes of a request: reads it, checks its signature, counts it, and finds out how to answer it."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TextIO

from enrich.base.errors import ConfigError
from enrich.base.json_lines import json_text
from enrich.dev.sink.behaviour import MOST_PATHS, WELL, Behaviours, Ending, Reaction
from enrich.dev.sink.bodies import Unreadable, count_events, inflated
from enrich.dev.sink.seen import PathSeen, Place, parse_origins
from enrich.service.signatures import Signer, verifies

_OTHER_PATHS = "(others)"
_TOLERANCE_S = 300
"""How old or early a signed request may be, as the standard recommends."""

_UNSIGNED = replace(WELL, status=401, body=b"the signature is missing or wrong\n")
_UNREADABLE = replace(WELL, status=400, body=b"the body or its origins cannot be read\n")

Origins = Sequence[tuple[Place, int, int]]


@dataclass(slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[bytes, bytes]
    """Names in lower case; values of a name that occurs twice are joined by commas."""
    body: bytes = b""


@dataclass(frozen=True)
class ReceiverPlan:
    secrets: Sequence[str] = ()
    """If there are any, a request must be signed by one of them."""
    out: TextIO | None = None
    """Gets a line for each request."""


class Receiver:
    def __init__(self, plan: ReceiverPlan, behaviours: Behaviours, clock: Callable[[], float] = time.time) -> None:
        """Raises ConfigError for a secret that is none."""
        Signer(plan.secrets, "--secret")
        self._plan = plan
        self._clock = clock
        self.behaviours = behaviours
        self.seen: dict[str, PathSeen] = {}

    def receive(self, request: Request) -> Reaction:
        seen = self._seen(request.path)
        seen.requests += 1
        seen.size += len(request.body)
        reaction, events, origins, body = self._judged(seen, request)
        seen.events += events
        if reaction.takes:
            seen.taken += events
            seen.take(origins)
        seen.answers[str(reaction.status) if reaction.ending is Ending.whole else reaction.ending.value] += 1
        message_id = request.headers.get(b"webhook-id")
        if message_id is not None:
            seen.note_id(message_id)
        if self._plan.out is not None:
            self._write(self._plan.out, request, reaction, body)
        return reaction

    def flush(self) -> None:
        """Raises ConfigError if the lines of `out` cannot be written."""
        if self._plan.out is None:
            return
        try:
            self._plan.out.flush()
        except OSError as error:
            raise ConfigError(
                f"cannot write what came: {error.strerror}",
                where=f"--out {self._plan.out.name}",
                next_step="free some space, or write elsewhere",
            ) from None

    def forget(self) -> None:
        """Counts from nothing."""
        self.seen.clear()

    def _judged(self, seen: PathSeen, request: Request) -> tuple[Reaction, int, Origins, bytes]:
        headers = request.headers
        if self._plan.secrets and not self._is_signed(request):
            seen.unsigned += 1
            return _UNSIGNED, 0, (), request.body
        origins: Origins = ()
        try:
            body = inflated(request.body, headers.get(b"content-encoding", b""))
            events = count_events(body, headers.get(b"content-type", b"")) if body else 0
            named = headers.get(b"enrich-origins")
            if named is not None:
                origins = parse_origins(named.decode())
        except (Unreadable, ValueError):
            seen.unreadable += 1
            return _UNREADABLE, 0, (), request.body
        return self.behaviours.react(request.path, body), events, origins, body

    def _is_signed(self, request: Request) -> bool:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()}
        try:
            is_of_now = abs(int(headers["webhook-timestamp"]) - self._clock()) <= _TOLERANCE_S
        except (KeyError, ValueError, OverflowError):  # the last: a number beyond all times
            return False
        return is_of_now and any(verifies(secret, headers, request.body) for secret in self._plan.secrets)

    def _seen(self, path: str) -> PathSeen:
        seen = self.seen.get(path)
        if seen is None:
            if len(self.seen) >= MOST_PATHS:
                path = _OTHER_PATHS
            seen = self.seen.setdefault(path, PathSeen())
        return seen

    def _write(self, out: TextIO, request: Request, reaction: Reaction, body: bytes) -> None:
        line = {
            "received_ms": round(self._clock() * 1000),
            "path": request.path,
            "id": request.headers.get(b"webhook-id", b"").decode("latin-1"),
            "origins": request.headers.get(b"enrich-origins", b"").decode("latin-1"),
            "status": reaction.status,
            "answer": reaction.ending.value,
            "taken": reaction.takes,
            "body": body.decode("utf-8", "replace"),
        }
        with suppress(OSError):  # what is not written stays in the buffer, and `flush` raises
            out.write(json_text(line) + "\n")

"""Posts plays to ingest at a steady rate, and sends again what was not acknowledged: what every sender has to do."""

import http.client
import json
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from enrich.base.errors import Fatal, Unreachable
from enrich.demo.places import Places
from enrich.demo.plays import Plays

_AT_FIRST, _PER_SECOND = 50, 500
_TICK_S = 0.02
_AGAIN_S = 0.05
_MOST = 500
"""Events of a request."""
_TIMEOUT_S = 10.0
_END_S = 60.0
_WINDOW_S = 3.0


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    path: str
    token: str


class Sender:
    """Sends from `start` to `stop`, few events until `speed_up`, over one connection."""

    def __init__(self, target: Target, plays: Plays) -> None:
        self._target = target
        self._plays = plays
        self._connection: http.client.HTTPConnection | None = None
        self._stopping = threading.Event()
        self._giving_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self._per_second = _AT_FIRST
        self._recent: deque[tuple[float, int]] = deque()
        self.failure: Fatal | None = None
        self.acknowledged = Places()
        """Where each event came in: what ingest answered."""
        self.sent_again = 0
        """Requests that were repeated, since nobody said that they were taken."""
        self.is_waiting = False
        """Whether a request is under way."""

    def start(self) -> None:
        self._thread.start()

    def speed_up(self) -> None:
        self._per_second = _PER_SECOND

    def stop(self) -> None:
        """Returns once everything that was made is acknowledged. Raises Unreachable if that takes a minute, and Fatal
        if something was refused."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)
        if self._thread.is_alive():
            self.give_up()
            raise Unreachable(f"ingest has not acknowledged the last events within {_END_S:g} s")
        if self.failure is not None:
            raise self.failure

    def give_up(self) -> None:
        """Without what is not acknowledged."""
        self._stopping.set()
        self._giving_up.set()
        if self._thread.is_alive():
            self._thread.join()

    def is_listened_to(self) -> bool:
        try:
            socket.create_connection((self._target.host, self._target.port), _TIMEOUT_S).close()
        except OSError:
            return False
        return True

    @property
    def per_second(self) -> float:
        """Acknowledged events, over the last seconds."""
        oldest = time.monotonic() - _WINDOW_S
        return sum(count for at, count in list(self._recent) if at > oldest) / _WINDOW_S

    def _run(self) -> None:
        last, due = time.monotonic(), 0.0
        try:
            while not self._stopping.wait(_TICK_S):
                now = time.monotonic()
                last, due = now, due + (now - last) * self._per_second
                count = min(int(due), _MOST)
                if count:
                    due -= count
                    self._deliver([self._plays.next() for _ in range(count)])
        except Fatal as error:
            self.failure = error
        finally:
            self._close()

    def _deliver(self, events: list[str]) -> None:
        body, is_first = "\n".join(events).encode(), True
        while not self._giving_up.is_set():
            origins = self._posted(body)
            self.sent_again += not is_first
            if origins is not None:
                self.acknowledged.add(origins)
                self._recent.append((time.monotonic(), len(origins)))
                while self._recent[0][0] < time.monotonic() - _WINDOW_S:
                    self._recent.popleft()
                return
            is_first = False
            self._giving_up.wait(_AGAIN_S)

    def _posted(self, body: bytes) -> list[str] | None:
        """The origins of the events, once they are acknowledged. None if nobody says whether they were taken."""
        target = self._target
        headers = {
            "content-type": "application/x-ndjson",
            "authorization": f"Bearer {target.token}",
            "prefer": "return=representation",
        }
        if self._connection is None:
            self._connection = http.client.HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)
        try:
            self._connection.request("POST", target.path, body, headers)
            self.is_waiting = True
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self._close()
            return None
        finally:
            self.is_waiting = False
        if answer.status == HTTPStatus.OK:
            return list(json.loads(content)["origins"])
        if answer.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            return None
        raise Fatal(f"ingest answered {answer.status}: {content[:200].decode(errors='replace')}")

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None

"""Senders of events that each have an id, and are sent once; they know what became of each request, and when."""

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Self

from tests.support.seed import random_source
from tests.support.waiting import GUARD_S, wait_until

_EVENTS = 5
"""In a request."""
_AGAIN_S = 0.05
"""Nobody listens: the rhythm of trying again."""


class Senders:
    """Inside a block they send, each as soon as it has its answer, or after a pause of random length."""

    def __init__(self, port: int, count: int = 4, longest_pause_s: float = 0.0) -> None:
        """Without pauses all wait together for what stalls, and what waits is all of the same age."""
        self.acknowledged: set[int] = set()
        self.refused: dict[int, float] = {}
        """Ids of requests that got a 503, and when their request began."""
        self.began: dict[int, float] = {}
        """When the request of each id began."""
        self.answers: Counter[int] = Counter()
        self.ends: dict[int, int] = {}
        """The status that each id got."""
        self._port = port
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._longest_pause_s = longest_pause_s
        self._random = random_source("pauses of senders")
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(GUARD_S)

    def event(self, one: int) -> dict[str, Any]:
        return {"id": one}

    def until_acknowledged(self, more: int) -> None:
        """Waits until so many more events are."""
        wanted = len(self.acknowledged) + more
        wait_until(lambda: len(self.acknowledged) >= wanted, what=f"{more} more acknowledged events")

    def until_answered(self, status: int, more: int) -> None:
        wanted = self.answers[status] + more
        wait_until(lambda: self.answers[status] >= wanted, what=f"{more} more answers with {status}")

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(OSError, http.client.HTTPException):
                for _ in self._connected():
                    if self._stopping.wait(self._random.uniform(0, self._longest_pause_s)):
                        return
            self._stopping.wait(_AGAIN_S)

    def _connected(self) -> Iterator[None]:
        """Sends on one connection, a request a step. Raises what a dead server makes of it."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=GUARD_S)) as connection:
            connection.connect()  # before an id is used up
            while True:
                with self._lock:
                    ids = list(itertools.islice(self._ids, _EVENTS))
                began = time.time()
                self.began |= dict.fromkeys(ids, began)
                body = json.dumps([self.event(one) for one in ids])
                connection.request("POST", "/v1/plays", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                with self._lock:
                    self._answered(ids, began, answer.status)
                yield

    def _answered(self, ids: list[int], began: float, status: int) -> None:
        self.answers[status] += 1
        self.ends |= dict.fromkeys(ids, status)
        if status == http.HTTPStatus.OK:
            self.acknowledged.update(ids)
        if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            self.refused |= dict.fromkeys(ids, began)

"""A link to a server that can lose an answer: what was asked is done, and nobody hears of it."""

import socket
import threading

from tests.support.links.link import Link, Passing


class LossyLink(Link):
    """Passes everything on, until `lose_answer_to`."""

    def __init__(self, host: str, port: int) -> None:
        self._armed = b""
        self._lock = threading.Lock()
        self.lost = 0
        """How many answers were lost so far."""
        super().__init__(host, port)

    def lose_answer_to(self, text: bytes) -> None:
        """The connection that next sends this text gets no answer to it: it ends once the server has answered."""
        with self._lock:
            self._armed = text

    def passing(self, client: socket.socket) -> Passing:  # noqa: ARG002 - whoever it is
        return _Lossy(self)

    def is_to_lose(self, sent: bytes) -> bool:
        """Whether this was asked for; then it is no longer."""
        with self._lock:
            if not self._armed or self._armed not in sent:
                return False
            self._armed = b""
            return True


class _Lossy(Passing):
    def __init__(self, link: LossyLink) -> None:
        self._link = link
        self._losing = threading.Event()

    def asked(self, data: bytes) -> bytes:
        if self._link.is_to_lose(data):
            self._losing.set()
        return data

    def answered(self, data: bytes) -> bytes:
        if self._losing.is_set():
            self._link.lost += 1
            raise ConnectionAbortedError
        return data

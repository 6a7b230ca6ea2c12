"""A link to a server that can lose an answer: what was asked is done, and nobody hears of it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 65_536


class LossyLink:
    """Passes everything on, until `lose_answer_to`."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._armed = b""
        self._lock = threading.Lock()
        self.lost = 0
        """How many answers were lost so far."""
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer_to(self, text: bytes) -> None:
        """The connection that next sends this text gets no answer to it: it ends once the server has answered."""
        with self._lock:
            self._armed = text

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                threading.Thread(target=_Connection(self, client, server).run, daemon=True).start()

    def is_to_lose(self, sent: bytes) -> bool:
        """Whether this was asked for; then it is no longer."""
        with self._lock:
            if not self._armed or self._armed not in sent:
                return False
            self._armed = b""
            return True


class _Connection:
    def __init__(self, link: LossyLink, client: socket.socket, server: socket.socket) -> None:
        self._link = link
        self._client = client
        self._server = server
        self._losing = threading.Event()

    def run(self) -> None:
        threading.Thread(target=self._answers, daemon=True).start()
        with suppress(OSError):
            while sent := self._client.recv(_CHUNK):
                if self._link.is_to_lose(sent):
                    self._losing.set()
                self._server.sendall(sent)
        self._end()

    def _answers(self) -> None:
        with suppress(OSError):
            while answer := self._server.recv(_CHUNK):
                if self._losing.is_set():
                    self._link.lost += 1
                    break
                self._client.sendall(answer)
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def lossy_link(host: str, port: int) -> Iterator[LossyLink]:
    link = LossyLink(host, port)
    try:
        yield link
    finally:
        link.close()

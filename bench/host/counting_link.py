"""A link to a broker that counts what its clients ask."""

import socket
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

_CHUNK = 1 << 18


@dataclass(frozen=True)
class Seen:
    by_key: Counter[int] = field(default_factory=Counter)
    """How many requests of each of Kafka's API keys: 1 is a fetch, 2 asks for offsets, 3 for metadata."""
    asked: int = 0
    answered: int = 0
    """Bytes."""
    connections: int = 0

    @property
    def requests(self) -> int:
        return self.by_key.total()

    def __sub__(self, before: "Seen") -> "Seen":
        return Seen(
            self.by_key - before.by_key,
            self.asked - before.asked,
            self.answered - before.answered,
            self.connections - before.connections,
        )


class CountingLink:
    """Passes everything on. Clients meet the broker at this address alone: answers that name its own name this one."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._server = host, int(port)
        self._listener = socket.create_server((host, 0))
        own = self._listener.getsockname()[1]
        self.address = f"{host}:{own}"
        name = host.encode()
        # As answers have it: the host's name, and four bytes of the port.
        self._told, self._instead = name + int(port).to_bytes(4), name + own.to_bytes(4)
        self._lock = threading.Lock()
        self._by_key: Counter[int] = Counter()
        self._asked = self._answered = self._accepted = 0
        self.connections = 0
        """Those that stand."""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "CountingLink":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.close()

    def seen(self) -> Seen:
        """So far."""
        with self._lock:
            return Seen(self._by_key.copy(), self._asked, self._answered, self._accepted)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                with self._lock:
                    self._accepted += 1
                    self.connections += 1
                threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with server, suppress(OSError):
            while frame := _frame(client):
                with self._lock:
                    self._by_key[int.from_bytes(frame[4:6])] += 1
                    self._asked += len(frame)
                server.sendall(frame)
        with self._lock:
            self.connections -= 1

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with client, suppress(OSError):
            while frame := _frame(server):
                with self._lock:
                    self._answered += len(frame)
                client.sendall(frame.replace(self._told, self._instead) if len(frame) < _CHUNK else frame)


def _frame(of: socket.socket) -> bytes:
    """One request or answer, with its length. Empty when the connection ends."""
    head = of.recv(4, socket.MSG_WAITALL)
    size = int.from_bytes(head)
    body = of.recv(size, socket.MSG_WAITALL) if len(head) == 4 else b""
    return head + body if len(body) == size and body else b""

"""A link to a server that remembers which process asked it what."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

_CHUNK = 65_536


class WatchedLink:
    """Passes everything on."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.asked: list[tuple[int, str, str]] = []
        """Process id, its command line, and the first line of what it asked."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, address = self._listener.accept()
                pid = _process_between(address, client.getsockname())
                threading.Thread(target=self._serve, args=(client, pid, _command(pid)), daemon=True).start()

    def _serve(self, client: socket.socket, pid: int, command: str) -> None:
        with client, socket.create_connection(self._server) as server, suppress(OSError):
            asked = client.recv(_CHUNK)
            self.asked.append((pid, command, asked.split(b"\r\n", 1)[0].decode()))
            server.sendall(asked)
            while answer := server.recv(_CHUNK):
                client.sendall(answer)


def _process_between(address: tuple[str, int], link: tuple[str, int]) -> int:
    # The list is made process by process: on a busy machine it may lack a connection that stands. It is not closed
    # before it is answered. Both ends are compared: connections to other servers may have the same port on their side,
    # and belong to others.
    for _ in range(20):
        for connection in psutil.net_connections("tcp"):
            if connection.pid and (connection.laddr, connection.raddr) == (address, link):
                return connection.pid
    return 0


def _command(pid: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return ""


@contextmanager
def watched_link(host: str, port: int) -> Iterator[WatchedLink]:
    link = WatchedLink(host, port)
    try:
        yield link
    finally:
        link.close()

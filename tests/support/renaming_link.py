"""A link to a broker that tells another address of it: what a client sees of one whose advertised listener is wrong."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 65_536


class RenamingLink:
    """Passes everything on, and puts one text for another, as long, into the answers."""

    def __init__(self, host: str, port: int, told: bytes, instead: bytes) -> None:
        assert len(told) == len(instead)  # or answers would have another length than they say
        self._server, self._told, self._instead = (host, port), told, instead
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_back, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with server, suppress(OSError):
            while asked := client.recv(_CHUNK):
                server.sendall(asked)

    def _pass_back(self, client: socket.socket, server: socket.socket) -> None:
        with client, suppress(OSError):
            while answer := server.recv(_CHUNK):
                client.sendall(answer.replace(self._told, self._instead))


@contextmanager
def renaming_link(host: str, port: int, *, told: bytes, instead: bytes) -> Iterator[RenamingLink]:
    link = RenamingLink(host, port, told, instead)
    try:
        yield link
    finally:
        link.close()

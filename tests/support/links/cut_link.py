"""A link to a broker that can be cut: to its clients no broker is there any more, until the link is mended."""

import socket
import threading
from contextlib import suppress

from tests.support.links.link import Passing
from tests.support.links.renaming_link import RenamingLink

HOST = "127.0.0.2"


class CutLink(RenamingLink):
    """At the broker's port of another address, which clients are told instead of the broker's: none goes past it."""

    def __init__(self, port: int) -> None:
        self._clients: list[socket.socket] = []
        super().__init__("127.0.0.1", port, told=b"127.0.0.1", instead=HOST.encode())
        self._listener.close()
        self.port = port
        self.mend()

    def passing(self, client: socket.socket) -> Passing:
        self._clients.append(client)
        return super().passing(client)

    def cut(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._clients:
            with suppress(OSError):  # it has gone by itself
                client.shutdown(socket.SHUT_RDWR)
        self._clients.clear()

    def mend(self) -> None:
        self._listener = socket.create_server((HOST, self.port))
        threading.Thread(target=self._accept, daemon=True).start()

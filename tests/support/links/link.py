"""A link between clients and a server. Its kinds say what happens to what is sent over it."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class Passing:
    """One connection over a link: passes everything on. What raises OSError ends the connection."""

    def asked(self, data: bytes) -> bytes:
        """What the server gets in place of this piece."""
        return data

    def answered(self, data: bytes) -> bytes:
        """What the client gets in place of this piece."""
        return data


class Link:
    """Until it is closed. Connections that stand then go on."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or `accept` would go on waiting
        self._listener.close()

    def passing(self, client: socket.socket) -> Passing:  # noqa: ARG002 - for kinds that want to know who it is
        """What happens on a new connection."""
        return Passing()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        passing = self.passing(client)
        try:
            server = socket.create_connection(self._server)
        except OSError:
            client.close()
            return
        threading.Thread(target=_pass_on, args=(server, client, passing.answered), daemon=True).start()
        _pass_on(client, server, passing.asked)


def _pass_on(source: socket.socket, sink: socket.socket, changed: Callable[[bytes], bytes]) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(changed(data))
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()

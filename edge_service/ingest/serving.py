"""Listens for senders, and stops without losing an answer."""

import asyncio
import logging
import socket
import ssl
from pathlib import Path

from edge_service.ingest.connection import Connection, Endpoint

_log = logging.getLogger("enrich.ingest")

_BACKLOG = 1024


class Serving:
    """The open connections of one process on one address."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint = endpoint
        self._loop = loop
        self._server: asyncio.Server | None = None
        self._ended: asyncio.Future[None] | None = None
        self.open: set[Connection] = set()

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Other processes may listen on the same port: the kernel deals the connections out. Returns the port. Raises
        OSError."""
        listener = _listener(host, port)
        self._server = await self._loop.create_server(self._connection, sock=listener, backlog=_BACKLOG, ssl=context)
        return int(listener.getsockname()[1])

    async def stop(self, patience_s: float) -> int:
        """Takes no new connections, answers what is under way, and closes. Returns how many had to be cut off."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.open):
            connection.stop()
        end = self._loop.time() + patience_s
        while self.open and self._loop.time() < end:
            await asyncio.sleep(0.01)
        late = list(self.open)
        for connection in late:
            connection.abort()
        while self.open:
            await asyncio.sleep(0)
        return len(late)

    def _connection(self) -> Connection:
        return Connection(self._endpoint, self.open, self._loop)


class Certificates:
    """A server's certificate, read again when its files change: connections that come then get the new one."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError or ssl.SSLError."""
        self._files = certificate, key
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.set_alpn_protocols(["http/1.1"])
        self._read = self._marks()
        self.context.load_cert_chain(certificate, key)

    def look(self) -> bool:
        """Whether the files had changed and are read now. What cannot be read leaves the old certificate."""
        marks = self._marks()
        if marks == self._read:
            return False
        try:
            # Of a pair that does not match nothing is taken: it is tried on a context of its own first.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*self._files)
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            _log.warning("the new certificate is not taken", extra={"reason": str(error), "file": str(self._files[0])})
            return False
        self._read = marks
        return True

    def _marks(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in (file.stat() for file in self._files))


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host.strip("[]"), port))
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener

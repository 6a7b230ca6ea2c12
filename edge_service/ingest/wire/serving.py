"""Listens for senders, and stops without losing an answer."""

import asyncio
import logging
import socket
import ssl
from pathlib import Path

from edge_service.ingest.wire.connection import Connection, Endpoint
from enrich.base.addresses import family_of
from enrich.base.errors import ConfigError
from enrich.config.sections.edges.ingest import ServerTls
from enrich.service.certificates import load_pair

_log = logging.getLogger("enrich.ingest")

_BACKLOG = 1024
_HANDSHAKE_S = 5.0


class Serving:
    """The open connections of one process on one address."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint = endpoint
        self._loop = loop
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        self.open: set[Connection] = set()

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Other processes may listen on the same port: the kernel deals the connections out. Returns the port. Raises
        OSError."""
        listener = _listener(host, port)
        # Handshakes are bounded as heads are: before them there is no connection that could bound itself.
        self._server = await self._loop.create_server(
            self._connection,
            sock=listener,
            backlog=_BACKLOG,
            ssl=context,
            ssl_handshake_timeout=None if context is None else _HANDSHAKE_S,
            ssl_shutdown_timeout=None if context is None else _HANDSHAKE_S,
        )
        return int(listener.getsockname()[1])

    async def stop(self, patience_s: float) -> int:
        """Takes no new connections, answers what is under way, and closes. Returns how many had to be cut off."""
        # Also of those whose handshake is under way, which ends later: nobody would tell them to stop.
        self._is_stopping = True
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
        return Connection(self._endpoint, self.open, self._loop, lambda: self._is_stopping)


_Marks = tuple[tuple[int, int, int], ...]


class Certificates:
    """A server's certificate, read again when its files change: connections that come then get the new one."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises ConfigError for files that cannot be used."""
        self._files = certificate, key
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.set_alpn_protocols(["http/1.1"])
        self._read = self._refused = self._marks()
        load_pair(self.context, certificate, key)

    def look(self) -> bool:
        """Whether the files had changed and are read now. What cannot be read leaves the old certificate."""
        marks = self._marks()
        if marks is None or marks in (self._read, self._refused):
            return False
        try:
            # Of a pair that does not match nothing is taken: it is tried on a context of its own first.
            load_pair(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), *self._files)
            load_pair(self.context, *self._files)
        except ConfigError as error:
            self._refused = marks
            _log.warning("the new certificate is not taken: %s", error)
            return False
        self._read = marks
        return True

    def _marks(self) -> _Marks | None:
        try:
            return tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in (file.stat() for file in self._files))
        except OSError:
            return None  # one of them is just being replaced


def certificates_of(tls: ServerTls | None) -> Certificates | None:
    """Raises ConfigError as `Certificates` does."""
    return None if tls is None else Certificates(Path(tls.cert_file), Path(tls.key_file))


def _listener(host: str, port: int) -> socket.socket:
    listener = socket.socket(family_of(host), socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host.strip("[]"), port))
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener

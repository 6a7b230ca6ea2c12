"""Ends answers of HTTP servers that do not end. A time-out of a socket is for each of its reads: one who sends a byte
now and then would be read for ever."""

import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from enrich.base.addresses import connected
from enrich.base.errors import EnrichError

_LOOK_EVERY_S = 0.2


class Ended(Exception):
    """The connection was shut down. The text is the reason."""


class Watched:
    """An answer, from connecting to its last byte."""

    def __init__(self, why_to_end: Callable[[], str | None]) -> None:
        self._why_to_end = why_to_end
        self._socket: socket.socket | None = None
        self._copy: socket.socket | None = None
        self.ended: str | None = None
        """Why, once it was ended."""

    def connect(self, connection: http.client.HTTPConnection) -> None:
        """To be called before the request; one that is connected already stays so."""
        if connection.sock is None:
            connection._create_connection = self._connected  # type: ignore[attr-defined] # the only way in, and an old one
            try:
                connection.connect()
            finally:
                self._forget_copy()
        # Where the answer's end is that of the connection, http.client drops the socket as soon as the body begins.
        self._socket = connection.sock

    def _connected(self, address: tuple[str, int], timeout_s: float, _source: object) -> socket.socket:
        return connected(*address, timeout_s, self._trying)

    def _trying(self, plain: socket.socket) -> None:
        """`look` ends also what is only connecting. A copy: TLS takes its descriptor from a socket as it begins."""
        self._forget_copy()
        self._socket = self._copy = socket.socket(fileno=os.dup(plain.fileno()))

    def _forget_copy(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def look(self) -> None:
        self.ended = self.ended or self._why_to_end()
        if self.ended is not None and self._socket is not None:  # each time: it may just have connected
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


@contextmanager
def watched(why_to_end: Callable[[], str | None]) -> Iterator[Watched]:
    """Looks several times a second whether there is a reason to end what is read in the block. Raises Ended then."""
    one = Watched(why_to_end)
    one.look()
    if one.ended is not None:
        raise Ended(one.ended)
    _WATCHER.watch(one)
    try:
        yield one
    except (OSError, http.client.HTTPException, EnrichError):
        _WATCHER.done(one)
        if one.ended is None:
            raise
    finally:
        _WATCHER.done(one)
    if one.ended is not None:
        raise Ended(one.ended)


class _Watcher:
    """Looks at all answers of the process in one thread: one for each costs half of its time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: set[Watched] = set()
        self._process = 0

    def watch(self, one: Watched) -> None:
        with self._changed:
            self._watched.add(one)
            if self._process != os.getpid():  # a forked process has the lock, and no thread
                self._process = os.getpid()
                threading.Thread(target=self._run, name="answers watched", daemon=True).start()
            elif len(self._watched) == 1:
                self._changed.notify()

    def done(self, one: Watched) -> None:
        with self._changed:
            self._watched.discard(one)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._watched)
                for one in self._watched:
                    one.look()
            time.sleep(_LOOK_EVERY_S)


_WATCHER = _Watcher()

"""A link to a server that remembers which process asked it what."""

import socket
from contextlib import suppress

import psutil

from tests.support.links.link import Link, Passing


class WatchedLink(Link):
    """Passes everything on."""

    def __init__(self, host: str, port: int) -> None:
        self.asked: list[tuple[int, str, str]] = []
        """Of each connection: process id, its command line, and the first line of what it asked first."""
        super().__init__(host, port)

    def passing(self, client: socket.socket) -> Passing:
        pid = _process_between(client.getpeername(), client.getsockname())
        return _Watched(self, pid, _command(pid))


class _Watched(Passing):
    def __init__(self, link: WatchedLink, pid: int, command: str) -> None:
        self._link = link
        self._who = pid, command
        self._is_first = True

    def asked(self, data: bytes) -> bytes:
        if self._is_first:
            self._is_first = False
            self._link.asked.append((*self._who, data.split(b"\r\n", 1)[0].decode()))
        return data


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

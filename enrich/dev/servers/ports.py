"""Ports on the loopback interface: finds free ones, and the owner of a taken one."""

import random
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from enrich.base.errors import Fatal
from enrich.dev.servers.server import HOST

_LOWEST = 20_000  # people choose lower ports by hand: 5432, 6379, 8080, 9092, 11211, 15672...
_TRIES = 1_000


def is_free(port: int) -> bool:
    """Whether a server could listen there. A former server's connections in TIME_WAIT do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen()
        except OSError:
            return False
    return True


def is_listening(port: int) -> bool:
    """Whether a process accepts connections there."""
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def choose(count: int, taken: Collection[int], random_source: random.Random | None = None) -> list[int]:
    """Free ports that are not in `taken`, below the kernel's range for outgoing connections.

    A port from that range (which binding to port 0 gives) could be the source port of some connection just when the
    server restarts and needs it again.
    """
    source = random_source or random.SystemRandom()
    found: list[int] = []
    for _ in range(_TRIES):
        port = source.randrange(_LOWEST, _lowest_of_kernel())
        if port not in taken and port not in found and is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise Fatal(f"no free port was found between {_LOWEST} and {_lowest_of_kernel()}", where=HOST)


def _lowest_of_kernel() -> int:
    with suppress(OSError, ValueError):
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()[0])
        if lowest > _LOWEST + _TRIES:
            return lowest
    return 32_768


def owner(port: int) -> str | None:
    """The process that listens on a port, for people; None if there is none, or if we may not inspect it."""
    for connection in psutil.net_connections("tcp"):
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,)
        if listens and connection.pid is not None:
            with suppress(psutil.Error):
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return None

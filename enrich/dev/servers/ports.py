"""Ports on the loopback interface: finds free ones, and the owner of a taken one."""

import os
import random
import socket
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from enrich.base.errors import Fatal
from enrich.dev.servers.server import HOST

_LOWEST = 20_000  # people choose lower ports by hand: 5432, 6379, 8080, 9092, 11211, 15672...
_TRIES = 1_000
_LISTENING = "0A"


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


@dataclass(frozen=True)
class Owner:
    """A process that listens on a port."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"


def owner(port: int) -> Owner | None:
    """The process that listens on a port; None if there is none, or if we may not inspect it."""
    sockets = {f"socket:[{inode}]" for inode in _listening_sockets(port)}
    if not sockets:
        return None
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and not sockets.isdisjoint(_open_files(entry)):
            with suppress(OSError):
                return Owner(int(entry.name), (entry / "comm").read_text(encoding="utf-8").strip())
    return None


def _listening_sockets(port: int) -> Iterable[str]:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text(encoding="utf-8").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _open_files(process: Path) -> Iterable[str]:
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                yield os.readlink(link)  # noqa: PTH115 - "socket:[1]" is a name, not a path

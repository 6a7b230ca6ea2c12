"""What is different if a host's address is one of IPv6, which has colons itself, or if a name has several addresses."""

import socket
import time
from collections.abc import Callable
from urllib.parse import SplitResult

_PORTS = {"http": 80, "https": 443}


def family_of(host: str) -> socket.AddressFamily:
    """Of a socket for the address; with a name instead of one it is that of IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def in_url(host: str) -> str:
    """As it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def host_and_port(host: str, port: int | str) -> str:
    """As they stand in a URL."""
    return f"{in_url(host)}:{port}"


def place_of(url: SplitResult) -> tuple[str, int]:
    """Host and port of an HTTP URL, as sockets take them: the zone of a link-local address is behind a %, not behind
    its escape, and the root's dot, which is in no certificate, is left out. Always with the port: of an IPv6 address
    without one `http.client` takes the end for it."""
    return (url.hostname or "").replace("%25", "%").removesuffix("."), url.port or _PORTS[url.scheme]


def connected(
    host: str, port: int, timeout_s: float, trying: Callable[[socket.socket], object] = lambda _: None
) -> socket.socket:
    """Connects to the first of a name's addresses that takes a connection. Each has its share of the time: with
    `socket.create_connection` each has all of it, and one that is silent leaves nothing to those behind it.

    `trying` gets each socket before it is connected. Raises OSError.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    end_s = time.monotonic() + timeout_s
    failure = OSError("the name has no address")
    for number, (family, kind, protocol, _, place) in enumerate(found):
        try:
            plain = socket.socket(family, kind, protocol)
        except OSError as error:  # this host has no such family
            failure = error
            continue
        trying(plain)
        plain.settimeout(max((end_s - time.monotonic()) / (len(found) - number), 0.001))
        try:
            plain.connect(place)
        except OSError as error:
            plain.close()
            failure = error
        else:
            plain.settimeout(timeout_s)
            return plain
    raise failure

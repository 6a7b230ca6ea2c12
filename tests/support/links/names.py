"""Names that lead where a test says, and addresses that take no connection and do not refuse one either."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

SILENT = "127.0.0.3"


@contextmanager
def leading(*places: tuple[str, int]) -> Iterator[list[tuple[Any, ...]]]:
    """Inside the block every name leads to these places, in this order. Gives what was looked up."""
    asked: list[tuple[Any, ...]] = []

    def look_up(host: str, port: int, *_: object, **__: object) -> Sequence[tuple[Any, ...]]:
        asked.append((host, port))
        return [(_family(ip), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (ip, at)) for ip, at in places]

    with mock.patch.object(socket, "getaddrinfo", look_up):
        yield asked


@contextmanager
def silent(port: int = 0, address: str = SILENT) -> Iterator[tuple[str, int]]:
    """A place where nothing answers an attempt to connect."""
    with ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(4):  # as many as its backlog holds: the kernel answers to none more
            one = held.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()


def _family(ip: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in ip else socket.AF_INET

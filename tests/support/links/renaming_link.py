"""A link to a broker that tells another address of it: what a client sees of one whose advertised listener is wrong."""

import socket
from dataclasses import dataclass

from tests.support.links.link import Link, Passing


class RenamingLink(Link):
    """Passes everything on, and puts one text for another, as long, into the answers."""

    def __init__(self, host: str, port: int, *, told: bytes, instead: bytes) -> None:
        assert len(told) == len(instead)  # or answers would have another length than they say
        self._renaming = _Renaming(told, instead)
        super().__init__(host, port)

    def passing(self, client: socket.socket) -> Passing:  # noqa: ARG002 - whoever it is
        return self._renaming


@dataclass(frozen=True)
class _Renaming(Passing):
    told: bytes
    instead: bytes

    def answered(self, data: bytes) -> bytes:
        return data.replace(self.told, self.instead)

"""Servers under test that are killed, frozen and started again, at the same addresses and with their data."""

from dataclasses import dataclass

import psutil

from enrich.dev import Addresses, Stack
from tests.support.processes import kill


@dataclass(frozen=True)
class Servers:
    stack: Stack
    addresses: Addresses

    def pid(self, name: str) -> int:
        pid = next(status.pid for status in self.stack.status() if status.server == name)
        assert pid is not None
        return pid

    def processes(self, *names: str) -> list[int]:
        """The servers' processes, with those that serve their connections."""
        parents = [psutil.Process(self.pid(name)) for name in names]
        return [process.pid for parent in parents for process in (parent, *parent.children(recursive=True))]

    def kill(self, name: str) -> None:
        kill(self.pid(name))

    def restart(self) -> None:
        """Whatever was killed."""
        assert self.stack.up() == self.addresses

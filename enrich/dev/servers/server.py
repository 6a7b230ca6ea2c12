"""The interface of a server of the embedded stack, which kafka, redis, postgres and registry implement."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enrich.base.errors import Fatal
from enrich.jars import Report

HOST = "127.0.0.1"  # nothing of a stack listens anywhere else


@dataclass(frozen=True)
class Home:
    """Folder, ports and token of one server of one stack. Chosen at its first start, then kept."""

    folder: Path
    ports: Mapping[str, int]
    token: str  # random, 16 bytes in URL-safe Base64: Kafka's cluster id, PostgreSQL's password
    joins: "Home | None" = None
    """That of the server that this one joins."""

    @property
    def port(self) -> int:
        """The port that clients use: the first one."""
        return next(iter(self.ports.values()))


@dataclass(frozen=True)
class User:
    """The user that a command runs as, if it is not ours."""

    uid: int
    gid: int
    capability: int | None = None  # the only capability that it keeps


@dataclass(frozen=True)
class Command:
    """A program to run in a server's folder. Of our environment it gets `_INHERITED` (see processes/runfile.py)."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: User | None = None


class StepFailed(Fatal):
    """A command that prepares a server's folder ended with an error."""


RunStep = Callable[[Command], None]
"""Runs a command to its end in the server's folder. Raises StepFailed, or Fatal on a full disk."""

Prepare = Callable[[Home, RunStep], Command]
"""Prepares a server's folder, keeps existing data, and returns the command that runs the server."""


@dataclass(frozen=True)
class Server(ABC):
    """One kind of server. It is stateless: everything about an instance is in its Home."""

    name: str
    port_names: tuple[str, ...]
    patience: float
    """Seconds after which a start counts as failed, even on a slow machine."""
    stop_signal: signal.Signals = signal.SIGTERM
    """The signal that stops it quickly without losing anything."""
    joins: str | None = None
    """Another server that it cannot do without, and whose cluster it belongs to."""

    @abstractmethod
    def equip(self, report: Report | None) -> Prepare:
        """Finds or fetches what it needs to run, before anything starts. Raises ConfigError or Unreachable."""

    @abstractmethod
    def answers(self, home: Home) -> bool:
        """Whether it answers a real request, within about a second. Never raises for "not yet"."""

    @abstractmethod
    def address(self, home: Home) -> str:
        """The address for clients."""

"""What a server of the embedded stack is: the interface that kafka, redis, postgres and registry implement."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from enrich.base.errors import Fatal
from enrich.jars import Report

HOST = "127.0.0.1"  # nothing of a stack listens anywhere else


@dataclass(frozen=True)
class Home:
    """Where one server of one stack lives. Chosen when it starts for the first time, then kept."""

    folder: Path
    ports: Mapping[str, int]
    token: str  # random, 16 bytes in URL-safe Base64: Kafka's cluster id, PostgreSQL's password

    @property
    def port(self) -> int:
        """The port that clients use: the first one."""
        return next(iter(self.ports.values()))


@dataclass(frozen=True)
class User:
    """Whom a command runs as, when that is not us."""

    uid: int
    gid: int
    capability: int | None = None  # the only one that is kept


@dataclass(frozen=True)
class Command:
    """A program to run in a server's folder. Its environment is clean but for `environment` (see process.py)."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: User | None = None


class StepFailed(Fatal):
    """A command that prepares a server's folder ended with an error."""


RunStep = Callable[[Command], None]
"""Runs a command to its end in the server's folder. Raises StepFailed, or Fatal on a full disk."""

Prepare = Callable[[Home, RunStep], Command]
"""Makes a server's folder ready, keeping the data that is there, and returns the command that serves."""


class Server(Protocol):
    """One kind of server. Without state of its own: everything about an instance is in its Home."""

    @property
    def name(self) -> str: ...

    @property
    def port_names(self) -> tuple[str, ...]: ...

    @property
    def stop_signal(self) -> signal.Signals:
        """What makes it stop quickly without losing anything."""

    @property
    def patience(self) -> float:
        """Seconds that a start may take on a slow machine before it counts as failed."""

    def equip(self, report: Report | None) -> Prepare:
        """Finds or fetches what it needs to run, before anything starts. Raises ConfigError or Unreachable."""

    def answers(self, place: Home) -> bool:
        """Whether it answers a real request, within about a second. Never raises for "not yet"."""

    def address(self, place: Home) -> str:
        """What clients connect to."""

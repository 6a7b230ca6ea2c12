"""Processes by identity: a process id alone may be another process by tomorrow, with its start time it may not."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """A process: its id, and the clock tick since boot in which it was started."""

    pid: int
    started: int


@dataclass(frozen=True)
class Stat:
    """What the kernel says of a process."""

    state: str
    parent: int
    session: int
    started: int

    @property
    def has_ended(self) -> bool:
        """Nobody has taken notice of its end yet, but it does nothing any more."""
        return self.state in "ZX"


def stat(pid: int) -> Stat | None:
    """None when there is no process of this id."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, which may itself hold spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return Stat(state=fields[0], parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]))


def pid_namespace() -> int:
    """Containers that share a store's directory may each count processes on their own."""
    return (PROC / "self" / "ns" / "pid").stat().st_ino


def identify(pid: int) -> Identity | None:
    """The process that has this id now, None when there is none. One that ended, not yet reaped, is none."""
    found = stat(pid)
    return None if found is None or found.has_ended else Identity(pid, found.started)


def send(process: Identity, number: signal.Signals) -> bool:
    """Signals this very process and no other that has its id by now. False when it has ended."""
    try:
        # The descriptor pins the process: what is compared after it was opened is what gets the signal.
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if identify(process.pid) != process:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True

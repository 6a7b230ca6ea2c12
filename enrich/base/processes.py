"""Identifies processes by id and start time: the id alone may be reused by another process."""

import ctypes
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Identity:
    """A process: its id, and its start time in clock ticks since boot."""

    pid: int
    started: int


@dataclass(frozen=True)
class Stat:
    """What the kernel reports about a process."""

    state: str
    parent: int
    session: int
    started: int
    threads: int

    @property
    def has_ended(self) -> bool:
        """A zombie or dead: not reaped yet, but it does nothing any more. A zombie that has threads has lost its first
        one only: until the last one is gone, which takes a busy host a tenth of a second, it holds files and locks."""
        return self.state in "ZX" and self.threads <= 1


def stat(pid: int) -> Stat | None:
    """None if there is no process with this id."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return Stat(
        state=fields[0], parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]), threads=int(fields[17])
    )


def pid_namespace() -> int:
    """Inode of the PID namespace: containers that share a store's directory may use the same process ids."""
    return _namespace_of(os.getpid())


@cache
def _namespace_of(pid: int) -> int:
    # A process stays in its namespace for good, and readers ask each time they look at the agent.
    return (PROC / str(pid) / "ns" / "pid").stat().st_ino


def identify(pid: int) -> Identity | None:
    """The process that has this id now; None if there is none, or if it is a zombie."""
    found = stat(pid)
    return None if found is None or found.has_ended else Identity(pid, found.started)


def started_at(process: Identity) -> float:
    """Start time in seconds since 1970. It changes when the host's clock is set."""
    boot = (PROC / "stat").read_text(encoding="ascii").partition("\nbtime ")[2].split()[0]
    return int(boot) + started_since_boot(process)


def started_since_boot(process: Identity) -> float:
    """Start time in seconds since the host was booted."""
    return process.started / os.sysconf("SC_CLK_TCK")


class WatchedProcess:
    """For those who ask again and again whether a process lives: the kernel answers by the process' descriptor at a
    tenth of what /proc costs."""

    def __init__(self, identity: Identity) -> None:
        """Raises OSError if neither can be asked: this process has no descriptor left."""
        self.identity = identity
        self._poll = select.poll()
        self._descriptor: int | None = None
        with suppress(OSError):  # it has ended, or no descriptor is to be had: then /proc has to tell
            self._descriptor = os.pidfd_open(identity.pid)
            self._poll.register(self._descriptor, select.POLLIN)
        try:
            is_another = identify(identity.pid) != identity
        except OSError:
            self.close()
            raise
        if is_another:
            self.close()

    def lives(self) -> bool:
        if self._descriptor is None:
            return identify(self.identity.pid) == self.identity
        return not self._poll.poll(0)  # the descriptor of an ended process is readable

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def send(process: Identity, number: signal.Signals) -> bool:
    """Signals this process, and never another one that reused its id. False if it has ended."""
    try:
        # The descriptor refers to one process for good: the one that is compared below is the one that gets the signal.
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


def end_with(parent: int, number: signal.Signals) -> None:
    """From now on this process is sent the signal when the thread ends that started it, however that is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before prctl took effect
        os.kill(os.getpid(), number)


def fork(run: Callable[[], int]) -> int:
    """The id of a new process, which ends with what this returns, and is killed with the thread that forked it. To be
    called while this process has one thread. Raises OSError if there can be no process more."""
    parent = os.getpid()
    process = os.fork()
    if process == 0:
        try:
            end_with(parent, signal.SIGKILL)
            os._exit(run())
        finally:
            os._exit(1)  # whatever happened: it must never go on as a second one of its parent
    return process

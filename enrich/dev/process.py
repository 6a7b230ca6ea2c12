"""Processes by identity: a process id alone may be another process by tomorrow, with its start time it may not."""

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """A process: its id, and the clock tick since boot in which it was started."""

    pid: int
    started: int


_exit_codes: dict[Identity, int] = {}  # of children that were reaped here: the kernel tells it only once


@dataclass(frozen=True)
class _Stat:
    state: str
    session: int
    started: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses, which may itself hold spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return _Stat(state=fields[0], session=int(fields[3]), started=int(fields[19]))


def identify(pid: int) -> Identity | None:
    """The process that has this id now, None when there is none. One that ended, not yet reaped, is none."""
    stat = _stat(pid)
    return None if stat is None or stat.state in "ZX" else Identity(pid, stat.started)


def is_alive(process: Identity) -> bool:
    stat = _stat(process.pid)
    if stat is None or stat.started != process.started:
        return False
    if stat.state in "ZX":
        _reap(process)
        return False
    return True


def exit_code(process: Identity) -> int | None:
    """How a child of ours ended, as subprocess counts: negative for a signal. None when that is not known."""
    return _exit_codes.get(process)


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


def in_session(leader: int) -> list[Identity]:
    """The living processes of the session that `leader` began, itself included if it lives."""
    found = []
    for pid in _all():
        stat = _stat(pid)
        if stat is not None and stat.session == leader and stat.state not in "ZX":
            found.append(Identity(pid, stat.started))
    return found


def holding(links: Collection[str], descriptor: int) -> list[Identity]:
    """The processes whose open file of this number is one of `links`, as /proc spells them."""
    found = []
    for pid in _all():
        with suppress(OSError):  # gone, or not ours to look into
            if os.readlink(_PROC / str(pid) / "fd" / str(descriptor)) in links:  # noqa: PTH115 - the text, not a path
                found.append(identify(pid))
    return [process for process in found if process is not None]


def memory(process: Identity) -> int:
    """Bytes of main memory that the process and its children hold; what they share is counted once."""
    total = 0
    for member in in_session(process.pid):
        with suppress(OSError):
            _, resident, shared, *_ = map(int, (_PROC / str(member.pid) / "statm").read_text().split())
            total += resident if member == process else max(0, resident - shared)
    return total * os.sysconf("SC_PAGE_SIZE")


def started_at(process: Identity) -> float:
    """When it was started, in seconds since 1970."""
    since_boot = process.started / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


def _all() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _reap(process: Identity) -> None:
    """Takes a dead child of ours off the process table. Whoever is not our child is left alone."""
    with suppress(ChildProcessError):
        pid, status = os.waitpid(process.pid, os.WNOHANG)
        if pid == process.pid:
            _exit_codes[process] = os.waitstatus_to_exitcode(status)

"""The processes of the stack's servers: whether they live, how they ended, their memory and open files."""

import os
import time
from collections.abc import Collection
from contextlib import suppress

from enrich.base.processes import PROC, Identity, identify, stat

_LAST_THREADS_S, _POLL_S = 5.0, 0.005

_exit_codes: dict[Identity, int] = {}  # of children that were reaped here: the kernel reports it only once


def is_alive(process: Identity) -> bool:
    found = stat(process.pid)
    if found is None or found.started != process.started:
        return False
    if found.has_ended:
        _reap(process)
        return False
    return True


def exit_code(process: Identity) -> int | None:
    """The exit code of a child of ours that has ended, as in subprocess: negative for a signal. None if unknown."""
    end = time.monotonic() + _LAST_THREADS_S
    # Its main thread has ended, but other threads of a JVM may not: until then the kernel reports nothing.
    while process not in _exit_codes and _reap(process) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return _exit_codes.get(process)


def in_session(leader: int) -> list[Identity]:
    """The living processes of the session that `leader` started, including itself if it lives."""
    found = []
    for pid in _all():
        member = stat(pid)
        if member is not None and member.session == leader and not member.has_ended:
            found.append(Identity(pid, member.started))
    return found


def holding(links: Collection[str], descriptor: int) -> list[Identity]:
    """The processes whose open file of this number is one of `links`, as /proc spells them."""
    found = []
    for pid in _all():
        with suppress(OSError):  # it has ended, or we may not inspect it
            if os.readlink(PROC / str(pid) / "fd" / str(descriptor)) in links:  # noqa: PTH115 - the text, not a path
                found.append(identify(pid))
    return [process for process in found if process is not None]


def memory(process: Identity) -> int:
    """Bytes of main memory of the process and its children. Shared pages are counted once."""
    total = 0
    for member in in_session(process.pid):
        with suppress(OSError):
            _, resident, shared, *_ = map(int, (PROC / str(member.pid) / "statm").read_text().split())
            total += resident if member == process else max(0, resident - shared)
    return total * os.sysconf("SC_PAGE_SIZE")


def started_at(process: Identity) -> float:
    """Start time in seconds since 1970."""
    since_boot = process.started / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


def _all() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _reap(process: Identity) -> bool:
    """Reaps a dead child. Returns False if it is not our child."""
    with suppress(ChildProcessError):
        pid, status = os.waitpid(process.pid, os.WNOHANG)
        if pid == process.pid:
            _exit_codes[process] = os.waitstatus_to_exitcode(status)
        return True
    return False

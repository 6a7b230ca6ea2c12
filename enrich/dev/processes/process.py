"""The processes of the stack's servers: whether they live, how they ended, their memory and open files."""

import os
from collections.abc import Collection
from contextlib import suppress

import psutil

from enrich.base.processes import PROC, Identity, identify, stat


def is_alive(process: Identity) -> bool:
    return identify(process.pid) == process


def exit_code(process: Identity) -> int | None:
    """Waits for the end of a child of ours. The code is as in subprocess: negative for a signal. None if unknown."""
    with suppress(ChildProcessError):
        return os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
    return None


def in_session(leader: int) -> list[Identity]:
    """The living processes of the session that `leader` started, including itself if it lives."""
    found = []
    for pid in psutil.pids():
        member = stat(pid)
        if member is not None and member.session == leader and not member.has_ended:
            found.append(Identity(pid, member.started))
    return found


def holding(links: Collection[str], descriptor: int) -> list[Identity]:
    """The processes whose open file of this number is one of `links`, as /proc spells them."""
    found = []
    for pid in psutil.pids():
        with suppress(OSError):  # it has ended, or we may not inspect it
            if os.readlink(PROC / str(pid) / "fd" / str(descriptor)) in links:  # noqa: PTH115 - the text, not a path
                found.append(identify(pid))
    return [process for process in found if process is not None]


def memory(process: Identity) -> int:
    """Bytes of main memory of the process and its children. Shared pages are counted once."""
    total = 0
    for member in in_session(process.pid):
        with suppress(psutil.Error):
            used = psutil.Process(member.pid).memory_info()
            total += used.rss if member == process else max(0, used.rss - used.shared)
    return total


def started_at(process: Identity) -> float:
    """Start time in seconds since 1970."""
    return psutil.boot_time() + process.started / os.sysconf("SC_CLK_TCK")

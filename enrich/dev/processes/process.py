"""The processes of the stack's servers: whether they live, how they ended, their memory and open files."""

import os
from collections.abc import Collection
from contextlib import suppress
from functools import cache

import psutil

from enrich.base.processes import PROC, Identity, identify, pid_namespace, stat


@cache
def place() -> str | None:
    """Where a process id names the same process as here: this start of this host, in this pid namespace. The boot id
    is needed: the namespace outside of all containers has the same number on every host. None if it cannot be told."""
    with suppress(OSError):
        boot = (PROC / "sys" / "kernel" / "random" / "boot_id").read_text(encoding="ascii").strip()
        return f"{boot}-{pid_namespace()}"
    return None


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
    """The processes whose open file of this number is one of `links`, as /proc spells them. None of another pid
    namespace: a container that is seen from its host has folders of its own, maybe with the same names."""
    found = []
    for pid in psutil.pids():
        with suppress(OSError):  # it has ended, or we may not inspect it
            link = os.readlink(PROC / str(pid) / "fd" / str(descriptor))  # noqa: PTH115 - the text, not a path
            if link in links and (PROC / str(pid) / "ns" / "pid").stat().st_ino == pid_namespace():
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

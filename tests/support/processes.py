"""Real processes under test: killed, stopped and continued by their id, never by name."""

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import psutil

from enrich.base.processes import identify, stat
from tests.support.waiting import wait_until


def kill(pid: int) -> None:
    """kill -9, and returns once the process is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), what=f"the end of process {pid}")


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process stands still inside the block (SIGSTOP) and goes on after it, whatever happens."""
    os.kill(pid, signal.SIGSTOP)
    try:
        # One that ended meanwhile stays a zombie for as long as its parent stands still.
        still = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
        wait_until(lambda: psutil.Process(pid).status() in still, what=f"the stop of process {pid}")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def all_frozen(pids: Iterable[int]) -> Iterator[None]:
    """All of them stand still inside the block, but for those that have ended meanwhile."""
    with ExitStack() as held:
        for pid in pids:
            with suppress(ProcessLookupError):
                held.enter_context(frozen(pid))
        yield


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that ended and is not yet reaped does not count."""
    return identify(pid) is not None


@contextmanager
def without_first_thread() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose first thread has ended, and nothing else."""
    number = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    code = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        f"ctypes.CDLL(None).syscall({number}, 0)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        wait_until(lambda: (found := stat(process.pid)) and found.state == "Z", what="the end of its first thread")
        yield process
        process.kill()


def python_workers(above: int) -> list[int]:
    """Those of Spark that run tasks, below this process: children of a daemon of Spark's."""
    parents = _parents_of_python(above)
    return [pid for pid, parent in parents.items() if parent in parents]


def python_daemons(above: int) -> list[int]:
    """Those of Spark that fork its workers."""
    parents = _parents_of_python(above)
    return [pid for pid, parent in parents.items() if parent not in parents]


def _parents_of_python(above: int) -> dict[int, int]:
    """Not of whoever is only told of the daemon's module, as the JVM and what starts that are."""
    parents = {}
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(above).children(recursive=True):
            with suppress(psutil.Error):  # it has ended meanwhile
                if child.cmdline()[1:3] == ["-m", "enrich.stage.daemon"]:
                    parents[child.pid] = child.ppid()
    return parents

"""The run file of a server: its process id, written by the server's own process, and a lock that lasts as long as it.

The lock (flock) belongs to an open file that the server inherits, so the kernel holds it exactly as long as the server
or a child of it lives, whatever happens to the process that started it. Callers of everything but `record` must hold
the stack's lock: otherwise two commands at work on one stack would see each other's short tests of the lock.
"""

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from enrich.base.errors import ConfigError, Fatal
from enrich.base.processes import PROC, Identity, send, stat
from enrich.dev.processes import launch
from enrich.dev.processes.process import holding, in_session, is_alive, place
from enrich.dev.servers.server import Command

SERVE = "serve"  # the step of a server proper; others are steps of its preparation

_LAUNCHER = Path(launch.__file__)
_POLL = 0.01
_SIGNS_WITHIN = 10.0  # a child needs 15 ms from its start until it has written its record
_DIES_WITHIN = 10.0  # SIGKILL takes effect when a process leaves the kernel: at once, unless a disk hangs
# Variables that a server inherits from our environment. It must not get the rest: secrets, settings of other Kafkas.
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "JAVA_HOME")


@dataclass(frozen=True)
class Record:
    """What the process wrote about itself: its identity, the step that it performs, and where its id is valid."""

    process: Identity
    step: str
    place: str | None = None
    """None in records of earlier releases."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is of another container or host, which may share the stack's directory, or of before a restart.
        What has its id here is a stranger."""
        return self.place is not None and self.place != place()

    @property
    def lives(self) -> bool:
        return not self.is_elsewhere and is_alive(self.process)

    @property
    def serves(self) -> bool:
        return self.step == SERVE and self.lives

    def family(self) -> list[Identity]:
        """The server and its children, while a process of it holds the lock; empty if they might be strangers."""
        leader = stat(self.process.pid)
        is_reused = leader is not None and leader.started != self.process.started
        if is_reused or self.is_elsewhere or (self.place is None and not self.lives):
            return []
        # Children too: while the lock is held a process of the session lives, so no other session has its id.
        return in_session(self.process.pid)


class RunFile:
    """One server's run file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self) -> Record | None:
        """The last record, of a living process or not; None if there is none."""
        try:
            entry = json.loads(self.path.read_bytes())
            process = Identity(int(entry["pid"]), int(entry["started"]))
            record = Record(process, str(entry["step"]), entry.get("place"))
        except (OSError, ValueError, KeyError, TypeError):
            return None  # never started, or not written yet
        return None if record.lives and self._is_copy(process.pid) else record

    def spawn(self, command: Command, step: str, folder: Path, log: Path) -> Identity | None:
        """Starts a process in a session of its own in `folder`. None if it ended before it wrote its record."""
        with self._open() as lock:
            if not _try_lock(lock):
                raise Fatal(f"another process holds {self.path.name}", where=str(self.path))
            lock.truncate(0)
            # A number above those of the child's own files: in a process without a stdin the lock may have number 0.
            lent = fcntl.fcntl(lock, fcntl.F_DUPFD_CLOEXEC, launch.RUN_FILE + 1)
            try:
                pid = _spawn(command, step, folder, log, lent)
            finally:
                os.close(lent)
        record = self._signature()
        if record is not None:
            return record.process
        os.kill(pid, signal.SIGKILL)  # an unreaped child keeps its process id, so this hits no other process
        os.waitpid(pid, 0)
        return None

    def is_free(self) -> bool:
        """Whether no process of this server is alive."""
        if not self.path.exists():
            return True
        with self._open() as lock:
            free = _try_lock(lock)
            if free:
                # Closing it is not enough: a process that another thread is starting has the file, too, until its exec.
                fcntl.flock(lock, fcntl.LOCK_UN)
        record = self.record()
        return free and (record is None or not record.lives)

    def require_here(self) -> None:
        """Raises ConfigError if the server runs in another container or on another host: we can neither see nor stop
        it."""
        record = self.record()
        if record is not None and record.is_elsewhere and not self.is_free():
            raise self._elsewhere()

    def running(self) -> Record | None:
        """The server, or a step of its preparation, if its main process is alive."""
        record = self._signature()
        return record if record is not None and record.lives else None

    def ask_to_stop(self, number: signal.Signals) -> None:
        record = self._signature()
        if record is not None and record.lives and send(record.process, number):
            send(record.process, signal.SIGCONT)  # a frozen process would not see the other signal

    def wait_stopped(self, patience: float, hurry: Callable[[], bool] = lambda: False) -> bool:
        """Waits until no process of the server is alive. Kills them after `patience` seconds, or at once in a `hurry`.

        Returns whether it had to kill. Raises Fatal if a process does not end even then, and ConfigError if none of
        its processes can be seen from here.
        """
        deadline = time.monotonic() + patience
        while not self.is_free():
            if time.monotonic() >= deadline or hurry():
                self._kill()
                return True
            time.sleep(_POLL)
        return False

    def _kill(self) -> None:
        deadline = time.monotonic() + _DIES_WITHIN
        has_seen_any = False
        while not self.is_free():
            self.require_here()
            record = self.record()
            family = [] if record is None else record.family()
            for process in {*family, *holding({str(self.path)}, launch.RUN_FILE)}:
                has_seen_any = True
                send(process, signal.SIGKILL)
            if time.monotonic() >= deadline:
                if not has_seen_any:
                    raise self._elsewhere()
                raise Fatal(
                    f"a process of {self.path.stem} does not end, although it was killed",
                    where=f"{self.path}, {'no process signed it' if record is None else record.process}",
                    next_step="it waits for a disk or file system that does not answer: check `dmesg`",
                )
            time.sleep(_POLL)

    def _is_copy(self, pid: int) -> bool:
        """Whether the process has another run file than this one, which came here with a copy of its stack's folder."""
        try:
            held = (PROC / str(pid) / "fd" / str(launch.RUN_FILE)).stat()
            return not os.path.samestat(held, self.path.stat())
        except OSError:
            return False  # it is of another user, or has just ended

    def _elsewhere(self) -> ConfigError:
        return ConfigError(
            f"{self.path.stem} of this stack runs in another container or on another host",
            where=str(self.path),
            next_step="run the command there, or choose another directory with --dir",
        )

    def _signature(self) -> Record | None:
        """The record, after giving a newly started child the time to write it. None if no process is alive."""
        deadline = time.monotonic() + _SIGNS_WITHIN
        while True:
            # In this order: a child may write its record and end between the two calls.
            done = self.is_free() or time.monotonic() >= deadline
            record = self.record()
            if done or record is not None:
                return record
            time.sleep(_POLL)

    def _open(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.path.open("ab+")


def _spawn(command: Command, step: str, folder: Path, log: Path, run_file: int) -> int:
    order = {
        "step": step,
        "folder": str(folder),
        "place": place(),
        "argv": command.argv,
        "user": None if command.user is None else asdict(command.user),
    }
    # HOME is its folder, so that it writes nothing elsewhere.
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # Not subprocess: the server outlives its parent, which must not wait for it.
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(order)],
        {**environment, "HOME": str(folder), **command.environment},
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_DUP2, run_file, launch.RUN_FILE),
        ),
        setsid=True,  # no Ctrl-C or hang-up of the terminal, and its children can be found by the session
    )


def kill_left_behind(paths: Iterable[Path]) -> set[str]:
    """Kills the servers whose stack was deleted while they ran: their data is gone. Returns their names."""
    names = {f"{path} (deleted)": path.stem for path in paths}  # how /proc shows a deleted file
    found: set[str] = set()
    deadline = time.monotonic() + _DIES_WITHIN
    while left := {name: holding({link}, launch.RUN_FILE) for link, name in names.items()}:
        found |= {name for name, processes in left.items() if processes}
        if not any(left.values()) or time.monotonic() >= deadline:
            break
        for process in chain.from_iterable(left.values()):
            send(process, signal.SIGKILL)
        time.sleep(_POLL)
    return found


def _try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

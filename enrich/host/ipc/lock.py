"""The election: the process that holds the lock of a store's directory is its agent, and the only one that writes."""

import fcntl
import os
from pathlib import Path

from enrich.base.errors import Fenced


class StoreLock:
    """An exclusive lock on a file, held as long as this process lives and the file stays at its path."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self.descriptor = descriptor
        """Any process that has it open holds the lock: a forked one must close it."""
        self._inode = os.fstat(descriptor).st_ino

    @classmethod
    def try_take(cls, path: Path) -> "StoreLock | None":
        """The lock, or None when another process holds it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Any user who can open the file could hold the lock, and then no agent could run.
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        lock = cls(path, descriptor)
        if not lock._is_at_its_path():
            # The directory was deleted between the open and the lock: another agent may hold the lock of a new one.
            lock.release()
            return None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return lock

    def require_held(self) -> None:
        """Raises Fenced once the file is gone or replaced: a second agent may write there by now."""
        if not self._is_at_its_path():
            raise Fenced(
                "the store's directory was deleted or replaced under the agent",
                where=str(self._path),
                next_step="nothing to do: readers start a new agent",
            )

    def release(self) -> None:
        os.close(self.descriptor)

    def _is_at_its_path(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

"""The lock of a cache, which also checks that the cache is open and belongs to this process."""

import os
import threading
from types import TracebackType

from stores.errors import Fatal


class Guard:
    """`with guard:` takes the lock. It raises if the cache is closed, or was inherited by a fork.

    `guard.lock` is the bare lock, for loads that end after the cache was closed.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed = False
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """After a fork the workers are missing, and a thread that does not exist here may hold the lock."""
        return os.getpid() != self._process

    def __enter__(self) -> None:
        if self.is_inherited:
            raise Fatal("this cache was made before the process was forked", next_step="make it in the child")
        self.lock.acquire()
        if self.closed:
            self.lock.release()
            raise Fatal("this cache is closed")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lock.release()

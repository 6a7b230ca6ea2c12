"""Removes the files that no manifest names any more, some time after: a reader may be about to map them."""

import contextlib
from collections.abc import Set
from pathlib import Path

from stores.protocol import Clock

_GRACE_MS = 10_000


class Superseded:
    """The files of a directory that wait for their removal."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._named: Set[str] = set()
        self._since: dict[str, int] = {}

    def keep_only(self, named: Set[str]) -> None:
        """From now on these are needed. What is needed no more goes once its grace has passed."""
        now = self._clock.now_ms()
        for name in self._named - named:
            self._since[name] = now
        self._named = named
        for name, since in list(self._since.items()):
            if now - since >= _GRACE_MS:
                del self._since[name]
                self.remove(name)

    def remove(self, name: str) -> None:
        """At once: nobody knows of it."""
        with contextlib.suppress(OSError):
            (self._directory / name).unlink()

    def sweep(self) -> None:
        """Removes what a former writer left and nobody needs. A reader that misses it takes the newer manifest."""
        for pattern in ("*.segment", "build-*.arrow"):
            for path in self._directory.glob(pattern):
                if path.name not in self._named:
                    self.remove(path.name)

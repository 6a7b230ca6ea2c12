"""Removes files that the manifest no longer lists, after a grace period: a reader may be about to map them."""

import contextlib
from collections.abc import Set
from pathlib import Path

from stores.protocol import Clock

_GRACE_MS = 10_000


class Superseded:
    """The files of a directory that wait to be removed."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._named: Set[str] = set()
        self._since: dict[str, int] = {}

    def keep_only(self, named: Set[str]) -> None:
        """From now on only these are needed. Removes others once their grace period has passed."""
        now = self._clock.now_ms()
        for name in self._named - named:
            self._since[name] = now
        self._named = named
        for name, since in list(self._since.items()):
            if now - since >= _GRACE_MS:
                del self._since[name]
                self.remove(name)

    def remove(self, name: str) -> None:
        """Removes a file at once: no reader knows it."""
        with contextlib.suppress(OSError):
            (self._directory / name).unlink()

    def sweep(self) -> None:
        """Removes files of earlier writers that are not needed. A reader that misses one takes the newer manifest."""
        for pattern in ("*.segment", "build-*.arrow"):
            for path in self._directory.glob(pattern):
                if path.name not in self._named:
                    self.remove(path.name)

"""A store whose rows only ever get newer, so that every answer of a cache in front of it can be judged."""

import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from stores.cache import ABSENT, Absent
from stores.errors import Unreachable

_DELETED_EVERY = 5


class Versions:
    """Key -> version, counting up. Every fifth version is a deletion.

    `floors` are what the model knows: once a change was told to the cache (by an invalidation or a put that has
    returned), no read that begins later may see an older version.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys
        self.current = dict.fromkeys(keys, 1)
        self.floors = dict.fromkeys(keys, 1)
        self._writing = {key: threading.Lock() for key in keys}

    def change(self, key: str, tell: object) -> None:
        """A new version, told to the cache by `tell(version)` before anyone may rely on it."""
        with self._writing[key]:
            self.current[key] += 1
            if callable(tell):
                tell(self.current[key])
                self.floors[key] = self.current[key]

    def change_all(self, tell: object) -> None:
        with ExitStack() as held:
            for key in self.keys:
                held.enter_context(self._writing[key])
            for key in self.keys:
                self.current[key] += 1
            assert callable(tell)
            tell()
            self.floors.update(self.current)

    def rows(self, keys: Iterable[str]) -> Iterator[tuple[str, int]]:
        """For a preload: as of the moment at which each row is drawn."""
        for key in keys:
            version = self.current[key]
            if not is_deleted(version):
                yield key, version


def is_deleted(version: int) -> bool:
    return version % _DELETED_EVERY == 0


def verdict(key: str, answer: int | Absent, floor: int, ceiling: int) -> str | None:
    """What is wrong with an answer, given the floor before the read and the current version after it."""
    if answer is ABSENT:
        if any(is_deleted(version) for version in range(floor, ceiling + 1)):
            return None
        return f"{key} was absent, which it never was between versions {floor} and {ceiling}"
    assert not isinstance(answer, Absent)
    if answer < floor:
        return f"{key} answered with version {answer}, though {floor} had been told before the read began"
    if answer > ceiling:
        return f"{key} answered with version {answer}, which there was not yet"
    return None


class Loading:
    """The loader: slow in random places, failing now and then, and the judge of one load a key at a time."""

    def __init__(self, versions: Versions, choice: random.Random) -> None:
        self._versions = versions
        self._choice = choice
        self._counting = threading.Lock()
        self._in_flight = dict.fromkeys(versions.keys, 0)
        self.faults: list[str] = []
        self.fails = True
        self.calls = 0

    def load(self, key: str, /) -> int | Absent:
        return self.load_all((key,)).get(key, ABSENT)

    def load_all(self, keys: Sequence[str], /) -> Mapping[str, int]:
        with self._counting:
            self.calls += 1
            for key in keys:
                self._in_flight[key] += 1
                if self._in_flight[key] > 1:
                    self.faults.append(f"{self._in_flight[key]} loads of {key} at once")
        try:
            self._dawdle()
            if self.fails and self._choice.random() < 0.1:
                raise Unreachable("the store is away, now and then")
            found = {key: self._versions.current[key] for key in keys}
            self._dawdle()
            return {key: version for key, version in found.items() if not is_deleted(version)}
        finally:
            with self._counting:
                for key in keys:
                    self._in_flight[key] -= 1

    def _dawdle(self) -> None:
        """Lets other threads run here for a while: the work of a slow store, nobody waits for it to pass."""
        for _ in range(self._choice.randrange(6)):
            time.sleep(0)
        if self._choice.random() < 0.2:
            time.sleep(0.000_2)

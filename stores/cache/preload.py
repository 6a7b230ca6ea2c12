"""Fills a cache with all entries before anyone relies on it, without undoing concurrent changes."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from stores.cache.protocol import K, MonotonicClock, V
from stores.errors import ConfigError, Retryable

if TYPE_CHECKING:
    from stores.cache.refresh_after_write import RefreshAfterWriteCache

_CHUNK = 1_000
"""How many entries are put while the lock is held once: about a millisecond."""


class Filling(Generic[K, V]):
    """The keys that have changed in a cache since a preload began: the preload's rows of these may be too old."""

    def __init__(self, add: Callable[[Sequence[tuple[K, V]]], None]) -> None:
        self.add = add
        """Puts entries into the cache. Raises ConfigError for those beyond its size."""
        self._changed: set[K] = set()
        self._all_changed = False
        self.kept = 0

    def has_changed(self, key: K) -> bool:
        return self._all_changed or key in self._changed

    def skip(self, key: K) -> None:
        self._changed.add(key)

    def skip_all(self) -> None:
        self._all_changed = True
        self._changed.clear()


@dataclass(frozen=True, slots=True)
class Preloaded:
    """The progress of a preload."""

    read: int
    kept: int
    """Fewer than `read` if keys were changed meanwhile."""
    seconds: float
    expected: int | None

    @property
    def rows_per_s(self) -> float:
        return self.read / self.seconds if self.seconds > 0 else 0.0


def preload(
    cache: "RefreshAfterWriteCache[K, V]",
    entries: Callable[[], Iterable[tuple[K, V]]],
    *,
    deadline_s: float,
    expected: int | None = None,
    report: Callable[[Preloaded], object] = lambda _: None,
    clock: MonotonicClock = time.monotonic,
) -> Preloaded:
    """Puts every entry into the cache; once it returns the cache is ready.

    `entries` enumerates the loader's entries. It is called only after the cache has begun to record changes: rows read
    earlier could be older than an unrecorded invalidation. Progress is reported after each thousand.

    Raises Retryable once the deadline has passed (entries read so far stay), ConfigError if the cache is too small, and
    what the loader raises. An iterator that blocks cannot be interrupted: its driver needs a timeout.
    """
    began = clock()
    read = 0
    with cache.filling() as filling:

        def put(chunk: Sequence[tuple[K, V]]) -> Preloaded:
            filling.add(chunk)
            progress = Preloaded(read, filling.kept, clock() - began, expected)
            report(progress)
            return progress

        chunk: list[tuple[K, V]] = []
        for row in entries():
            read += 1
            chunk.append(row)
            is_late = clock() - began > deadline_s
            if len(chunk) < _CHUNK and not is_late:
                continue
            progress = put(chunk)
            chunk = []
            if is_late:
                raise _too_slow(progress, deadline_s)
        return put(chunk)


def _too_slow(progress: Preloaded, deadline_s: float) -> Retryable:
    of = "" if progress.expected is None else f" of {progress.expected:,}"
    return Retryable(
        f"the preload had read {progress.read:,}{of} entries when its {deadline_s:g} s were over",
        next_step=f"at {progress.rows_per_s:,.0f} entries/s, allow it more time",
    )


def too_small(max_entries: int) -> ConfigError:
    return ConfigError(
        f"the preload has more entries than the {max_entries:,} that the cache may hold",
        next_step="raise `max_entries`, or do not preload this table",
    )

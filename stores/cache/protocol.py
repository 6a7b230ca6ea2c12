"""The interface of a refresh-after-write cache, and the few things that it needs from outside."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar, runtime_checkable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_K_contra = TypeVar("_K_contra", bound=Hashable, contravariant=True)
_V_co = TypeVar("_V_co", covariant=True)


class Absent(Enum):
    """Means that a key has no value; None may be a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class MonotonicClock(Protocol):
    """Seconds since any fixed moment; never goes back. `time.monotonic` is one."""

    def __call__(self) -> float: ...


class Executor(Protocol):
    """Runs reloads: with a bounded number of threads, never in the submitting one. `ThreadPoolExecutor` is one."""

    def submit(self, task: Callable[[], None], /) -> object:
        """Raises RuntimeError if it accepts no more tasks."""


class Loader(Protocol[_K_contra, _V_co]):
    """Loads missing entries. Called in many threads, but for one key only once at a time."""

    def load(self, key: _K_contra, /) -> _V_co | Absent:
        """May raise anything. Needs its own timeout (the driver's): a running load cannot be interrupted."""


@runtime_checkable
class BatchLoader(Protocol[K, _V_co]):
    """A loader that can load many keys in one call."""

    def load(self, key: K, /) -> _V_co | Absent: ...

    def load_all(self, keys: Sequence[K], /) -> Mapping[K, _V_co]:
        """The values of those keys that have one."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """What a cache has done since it was created. Keys are counted, even if a batch is loaded in one call."""

    hits: int = 0
    """Reads answered by an entry, including a cached absence."""
    misses: int = 0
    """Reads that loaded, or waited for a load."""
    loads: int = 0
    """Loads that a reader waited for and that succeeded."""
    load_failures: int = 0
    reloads: int = 0
    """Background loads that succeeded."""
    reload_failures: int = 0
    discarded: int = 0
    """Loaded values that were not kept because of an invalidation or a put meanwhile."""
    evictions: int = 0
    load_s: float = 0.0
    """Time spent in the loader, failures included."""
    entries: int = 0


class Cache(Protocol[K, V]):
    """Keys and their values, loaded on demand, reloaded in the background, bounded in number. Thread-safe."""

    def get(self, key: K, /) -> V | Absent:
        """The value, loaded if necessary.

        Raises what the loader raises, and Retryable if another thread's load of this key does not end within the
        deadline.
        """

    def get_many(self, keys: Iterable[K], /) -> dict[K, V]:
        """The values of those keys that have one; raises as `get` does. Values loaded before an error are kept."""

    def put(self, key: K, value: V, /) -> None:
        """From now on, reads see this value; the result of a running load is discarded."""

    def invalidate(self, key: K, /) -> None:
        """No read that begins after this returns a value loaded before it."""

    def invalidate_many(self, keys: Iterable[K], /) -> None: ...

    def invalidate_all(self) -> None: ...

    def statistics(self) -> CacheStatistics: ...

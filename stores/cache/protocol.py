"""What a cache needs from outside, its policy, and what it counts."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeVar, runtime_checkable

from stores.backoff import Backoff
from stores.errors import ConfigError

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


@dataclass(frozen=True, slots=True)
class Policy:
    """How long entries live, how many there may be, and how failed reloads back off."""

    max_entries: int
    refresh_s: float | None = None
    """From this age on, a read starts a reload in the background. None: only `invalidate` and `put` change entries."""
    expire_s: float | None = None
    """From this age on, an entry is not served any more. None: it never expires."""
    absent_expire_s: float | None = None
    """How long it is cached that a key has no value; such entries are not refreshed. None: it is not cached."""
    load_deadline_s: float = 30.0
    """How long a read waits for another thread's load of its key."""
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        if self.max_entries < 1:
            raise ConfigError(f"a cache cannot have {self.max_entries} entries", next_step="allow at least one")
        for name in ("refresh_s", "expire_s", "absent_expire_s", "load_deadline_s"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ConfigError(f"`{name}` is {seconds:g}", next_step="give a time above zero")
        if self.refresh_s is not None and self.expire_s is not None and self.refresh_s >= self.expire_s:
            raise ConfigError(
                f"entries would expire after {self.expire_s:g} s, before their refresh after {self.refresh_s:g} s",
                next_step="refresh earlier than entries expire",
            )

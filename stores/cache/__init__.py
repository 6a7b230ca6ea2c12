"""A refresh-after-write cache in front of anything slow, like Caffeine's, over cachetools' LRU.

Usable on its own with any loader: `open_cache(loader, policy)` in a `with` block, `preload` before anyone relies on it.
`RefreshAfterWriteCache` says what it promises, and takes the caller's executor and clock.
"""

from stores.backoff import Backoff
from stores.cache.preload import Preloaded, preload
from stores.cache.protocol import (
    ABSENT,
    Absent,
    BatchLoader,
    CacheStatistics,
    Executor,
    Loader,
    MonotonicClock,
    Policy,
)
from stores.cache.refresh_after_write import RefreshAfterWriteCache, open_cache

__all__ = [
    "ABSENT",
    "Absent",
    "Backoff",
    "BatchLoader",
    "CacheStatistics",
    "Executor",
    "Loader",
    "MonotonicClock",
    "Policy",
    "Preloaded",
    "RefreshAfterWriteCache",
    "open_cache",
    "preload",
]

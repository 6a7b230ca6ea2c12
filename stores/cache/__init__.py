"""A refresh-after-write cache in front of anything slow, like Caffeine's, over cachetools' LRU.

Usable on its own with any loader: `open_cache(loader, policy)` in a `with` block, `preload` before anyone relies on it.
`protocol` and `policy` say what it promises; `RefreshAfterWriteCache` takes the caller's executor and clock.
"""

from stores.backoff import Backoff
from stores.cache.opening import open_cache
from stores.cache.policy import Policy
from stores.cache.preload import Preloaded, preload
from stores.cache.protocol import (
    ABSENT,
    Absent,
    BatchLoader,
    Cache,
    CacheStatistics,
    Executor,
    Loader,
    MonotonicClock,
)
from stores.cache.refresh_after_write import RefreshAfterWriteCache

__all__ = [
    "ABSENT",
    "Absent",
    "Backoff",
    "BatchLoader",
    "Cache",
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

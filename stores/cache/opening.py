"""A cache with its own workers, for the duration of a `with` block."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from stores.cache.policy import Policy
from stores.cache.protocol import K, Loader, V
from stores.cache.refresh_after_write import RefreshAfterWriteCache


@contextmanager
def open_cache(
    loader: Loader[K, V], policy: Policy, *, workers: int = 2, close_deadline_s: float = 30.0
) -> Iterator[RefreshAfterWriteCache[K, V]]:
    """After the block none of its threads is left. The end of the block raises Retryable if a load does not end by the
    deadline."""
    # Reloads wait in an unbounded queue, which holds at most one for each entry.
    pool = ThreadPoolExecutor(workers, thread_name_prefix="enrich-reload")
    cache = RefreshAfterWriteCache(loader, policy, pool)
    try:
        yield cache
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        cache.close(close_deadline_s)
        pool.shutdown(wait=True)

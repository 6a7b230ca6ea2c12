"""Hits of the refresh-after-write cache beside cachetools' LRU, bare and as it must be used by threads: under a lock.

The smaller cache is the harder comparison: its entries stay in the processor's cache, so the extra work is all there is
to see. Both read the same keys in the same random order.
"""

import gc
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from cachetools import LRUCache

from bench.harness import Figures, interleaved, medians
from stores.cache import Absent, Policy, RefreshAfterWriteCache, open_cache, preload

ROUNDS = 9
READS = 300_000
THREADS = 4
BATCH = 1_000
SMALL, LARGE = 1_000, 100_000

Row = tuple[str, str, int]


class _NoStore:
    def load(self, key: str, /) -> Row | Absent:
        raise LookupError(f"{key} should have been a hit")


def run() -> Figures:
    with ExitStack() as stack:
        small, large = _Contenders(SMALL, stack), _Contenders(LARGE, stack)
        seconds = medians(
            interleaved(
                ROUNDS,
                {
                    "bare": small.bare,
                    "hit": small.hits,
                    "locked": small.locked,
                    "batch": small.batches,
                    "hit_threads": partial(small.in_threads, small.read_hits),
                    "locked_threads": partial(small.in_threads, small.read_locked),
                    "bare_large": large.bare,
                    "hit_large": large.hits,
                    "batch_large": large.batches,
                },
            )
        )
    nanoseconds = {name: value / READS * 1e9 for name, value in seconds.items()}
    return {
        "ratio": seconds["bare"] / seconds["hit"],
        "ratio_100k_entries": seconds["bare_large"] / seconds["hit_large"],
        "batch_ratio": seconds["bare"] / seconds["batch"],
        "batch_ratio_100k_entries": seconds["bare_large"] / seconds["batch_large"],
        "locked_ratio": seconds["bare"] / seconds["locked"],
        "bare_ns": nanoseconds["bare"],
        "hit_ns": nanoseconds["hit"],
        "batch_ns_per_key": nanoseconds["batch"],
        "locked_ns": nanoseconds["locked"],
        "threads_hits_per_s": READS / seconds["hit_threads"],
        "threads_locked_hits_per_s": READS / seconds["locked_threads"],
    }


class _Contenders:
    """Full caches of one size, and ways to read them `READS` times; each returns the seconds it took."""

    def __init__(self, entries: int, stack: ExitStack) -> None:
        rows = {f"user:{number}": ("pro", "eu", number) for number in range(entries)}
        keys = list(rows)
        choice = random.Random(entries)
        self._reads = [choice.choice(keys) for _ in range(READS)]
        self._bare: LRUCache[str, Row] = LRUCache(entries)
        self._bare.update(rows)
        self._lock = threading.Lock()
        policy = Policy(max_entries=entries, refresh_s=120, expire_s=30 * 86_400)
        self._cache: RefreshAfterWriteCache[str, Row] = stack.enter_context(open_cache(_NoStore(), policy))
        preload(self._cache, rows.items, deadline_s=60)

    def bare(self) -> float:
        return _timed(partial(_read_bare, self._bare, self._reads))

    def hits(self) -> float:
        return _timed(partial(self.read_hits, self._reads))

    def locked(self) -> float:
        return _timed(partial(self.read_locked, self._reads))

    def batches(self) -> float:
        batches = [self._reads[start : start + BATCH] for start in range(0, READS, BATCH)]
        return _timed(lambda: [self._cache.get_many(batch) for batch in batches])

    def in_threads(self, read: Callable[[Sequence[str]], None]) -> float:
        threads = [threading.Thread(target=read, args=(self._reads[n::THREADS],)) for n in range(THREADS)]

        def together() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return _timed(together)

    def read_hits(self, keys: Sequence[str]) -> None:
        get = self._cache.get
        for key in keys:
            get(key)

    def read_locked(self, keys: Sequence[str]) -> None:
        lock, cache = self._lock, self._bare
        for key in keys:
            with lock:
                cache[key]


def _read_bare(cache: LRUCache[str, Row], keys: Sequence[str]) -> None:
    for key in keys:
        cache[key]


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()  # its pauses belong to nobody in particular
    try:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started
    finally:
        gc.enable()

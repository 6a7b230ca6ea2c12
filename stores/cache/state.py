"""The state of a cache, the rules by which loads, puts and invalidations change it, and the lock that guards it."""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Generic

from stores.cache.entries import Entries, Entry, Flight, Flights
from stores.cache.preload import Filling, too_small
from stores.cache.protocol import ABSENT, Absent, CacheStatistics, K, Policy, V
from stores.errors import Fatal

_NEVER = float("inf")


class State(Generic[K, V]):
    """Every method that changes something needs the cache's lock; hits use `entries.index` and `hits` without it."""

    def __init__(self, policy: Policy, chance: Callable[[], float]) -> None:
        self._policy = policy
        self._chance = chance
        self.entries: Entries[K, V] = Entries(policy.max_entries)
        self.flights: Flights[K, V] = Flights()
        self.fillings: set[Filling[K, V]] = set()
        # `+=` without the lock: without a GIL, hits would be slightly too low.
        self.hits = 0
        self.misses = self._loads = self._load_failures = self._reloads = self._reload_failures = self._discarded = 0
        self.load_s = 0.0

    # What becomes of a load

    def land(self, flight: Flight[K, V], value: V | Absent, now: float) -> None:
        flight.value = value
        self._tell_fillings(flight.key)  # even if it is not kept: its reader must not see an older row afterwards
        if flight.in_background:
            self._reloads += 1
        else:
            self._loads += 1
        present = self.entries.index.get(flight.key)
        if flight.valid and present is flight.base:
            self._store(flight.key, value, now)
        else:
            self._discarded += 1
            if present is not None and now < present.expires_at:
                flight.value = present.value  # a put: the next read will see it, so this one must return it too
        self.flights.remove(flight)
        flight.end()

    def fail(self, flight: Flight[K, V], error: BaseException, now: float) -> None:
        flight.error = error
        self.flights.remove(flight)
        flight.end()
        if not flight.in_background:
            self._load_failures += 1
            return
        self._reload_failures += 1
        entry = self.entries.index.get(flight.key)
        if entry is not None and entry is flight.base:
            # Value and expiry stay; only the next reload is delayed.
            entry.failures += 1
            delay = self._policy.backoff.delay_s(entry.failures, self._chance())
            entry.fresh_until = min(entry.expires_at, now + delay)

    # What others do to the entries

    def put(self, key: K, value: V | Absent, now: float) -> None:
        self.flights.overtake(key)
        self._tell_fillings(key)
        self._store(key, value, now)

    def invalidate(self, keys: Iterable[K]) -> None:
        for key in keys:
            self.flights.overtake(key)
            self._tell_fillings(key)
            self.entries.discard(key)

    def invalidate_all(self) -> None:
        self.flights.overtake_all()
        self.entries.clear()
        for filling in self.fillings:
            filling.skip_all()

    def drop_if_expired(self, key: K, now: float) -> bool:
        entry = self.entries.index.get(key)
        if entry is None or now < entry.expires_at or key in self.flights:
            return False
        self.entries.discard(key)
        return True

    def add(self, filling: Filling[K, V], rows: Iterable[tuple[K, V]], now: float) -> None:
        """Adds a preload's rows, except those whose key has changed since it began or is being loaded: these may be too
        old."""
        index, most = self.entries.index, self._policy.max_entries
        for key, value in rows:
            if filling.has_changed(key) or self.flights.running(key) is not None:
                continue
            if filling.kept >= most and len(index) >= most and key not in index:
                raise too_small(most)
            self.flights.overtake(key)
            for other in self.fillings:
                if other is not filling:
                    other.skip(key)
            self._store(key, value, now)
            filling.kept += 1

    def _tell_fillings(self, key: K) -> None:
        for filling in self.fillings:
            filling.skip(key)

    def _store(self, key: K, value: V | Absent, now: float) -> None:
        entry = self._new_entry(value, now)
        if entry is None:
            self.entries.discard(key)
        else:
            self.entries.store(key, entry)

    def _new_entry(self, value: V | Absent, now: float) -> Entry[V] | None:
        policy = self._policy
        if value is ABSENT:
            if policy.absent_expire_s is None:
                return None
            return Entry(value, now + policy.absent_expire_s, now + policy.absent_expire_s)
        expires_at = _NEVER if policy.expire_s is None else now + policy.expire_s
        return Entry(value, expires_at if policy.refresh_s is None else now + policy.refresh_s, expires_at)

    def statistics(self) -> CacheStatistics:
        return CacheStatistics(
            hits=self.hits,
            misses=self.misses,
            loads=self._loads,
            load_failures=self._load_failures,
            reloads=self._reloads,
            reload_failures=self._reload_failures,
            discarded=self._discarded,
            evictions=self.entries.evicted,
            load_s=self.load_s,
            entries=len(self.entries),
        )


class Guard:
    """`with guard:` takes the lock. It raises if the cache is closed, or was inherited by a fork.

    `guard.lock` is the bare lock, for loads that end after the cache was closed.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed = False
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """After a fork the workers are missing, and a thread that does not exist here may hold the lock."""
        return os.getpid() != self._process

    def __enter__(self) -> None:
        if self.is_inherited:
            raise Fatal("this cache was made before the process was forked", next_step="make it in the child")
        self.lock.acquire()
        if self.closed:
            self.lock.release()
            raise Fatal("this cache is closed")

    def __exit__(self, *_: object) -> None:
        self.lock.release()

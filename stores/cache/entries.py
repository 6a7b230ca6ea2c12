"""The entries of a cache, over cachetools' LRU, with an index that is read without a lock; and the loads under way."""

import threading
from typing import Generic

from cachetools import LRUCache

from stores.cache.protocol import ABSENT, Absent, K, V

_SLACK = 8
"""While new entries worth 1/8 of the cache's size are added, an entry is moved to the recent end at most once."""


class Entry(Generic[V]):
    """One value and its times. Its identity matters: a reload replaces only the entry that it started from."""

    __slots__ = ("expires_at", "failures", "fresh_until", "move_after", "value")

    def __init__(self, value: V | Absent, fresh_until: float, expires_at: float) -> None:
        self.value = value
        self.fresh_until = fresh_until
        """Before this time a hit needs nothing else. Later a reload must be started, or the entry has expired."""
        self.expires_at = expires_at
        self.failures = 0
        """The number of reloads that failed in a row."""
        self.move_after = 0


class Entries(Generic[K, V]):
    """All methods but `index`'s look-up need the cache's lock: cachetools is not thread-safe, its reads mutate.

    Readers look into `index`, a plain dict, so a hit takes no lock. They report a read only if the entry's place in the
    LRU order may matter: nothing is evicted unless something is added, so an entry is not moved again until new entries
    worth 1/8 of the size were added. The LRU order is exact up to that many additions.
    """

    def __init__(self, max_entries: int) -> None:
        self.index: dict[K, Entry[V]] = {}
        self.max_entries = max_entries
        self.added = 0
        """New keys so far. Read without the lock, by each hit."""
        self.evicted = 0
        self._slack = max_entries // _SLACK
        self._order: _Evicting[K, V] = _Evicting(max_entries, self)

    def __len__(self) -> int:
        return len(self.index)

    def store(self, key: K, entry: Entry[V]) -> None:
        if key not in self.index:
            self.added += 1
        entry.move_after = self.added + self._slack
        self._order[key] = entry  # evicts, then moves the key to the recent end
        self.index[key] = entry

    def touch(self, key: K, entry: Entry[V]) -> None:
        """Call it when the entry has been read."""
        if self.index.get(key) is entry:
            entry.move_after = self.added + self._slack
            self._order[key]  # cachetools moves it

    def discard(self, key: K) -> None:
        if self.index.pop(key, None) is not None:
            del self._order[key]

    def clear(self) -> None:
        self.index.clear()
        self._order.clear()


class _Evicting(LRUCache[K, Entry[V]]):
    """Removes evicted keys from its owner's index."""

    def __init__(self, max_entries: int, owner: Entries[K, V]) -> None:
        super().__init__(max_entries)
        self._owner = owner

    def popitem(self) -> tuple[K, Entry[V]]:
        key, entry = super().popitem()
        del self._owner.index[key]
        self._owner.evicted += 1
        return key, entry


class Flight(Generic[K, V]):
    """One load of one key. All but `wait` needs the cache's lock until it has ended; then it never changes."""

    __slots__ = ("_ended", "base", "error", "in_background", "key", "thread", "valid", "value")

    def __init__(self, key: K, base: Entry[V] | None, *, in_background: bool) -> None:
        self.key = key
        self.base = base
        """The entry when the load began, or when the last reader joined: the only one that the load may replace."""
        self.in_background = in_background
        self.thread = None if in_background else threading.get_ident()
        """The thread that runs it; None while it waits for a worker."""
        self.valid = True
        """False once the key was invalidated or put: the result is too old to keep or to give to a new reader."""
        self.value: V | Absent = ABSENT
        self.error: BaseException | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        self.thread = threading.get_ident()

    def end(self) -> None:
        self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Whether it ended within this time."""
        return self._ended.wait(max(seconds, 0))


class Flights(Generic[K, V]):
    """The loads of a cache that are under way: at most one per key. Needs the cache's lock."""

    def __init__(self) -> None:
        self._by_key: dict[K, Flight[K, V]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._by_key

    def running(self, key: K) -> Flight[K, V] | None:
        """The flight that a reader has to wait for. Not one that still waits for a worker: the reader is faster."""
        flight = self._by_key.get(key)
        return flight if flight is not None and flight.thread is not None else None

    def all_running(self) -> list[Flight[K, V]]:
        return [flight for flight in self._by_key.values() if flight.thread is not None]

    def add(self, flight: Flight[K, V]) -> Flight[K, V]:
        """Adds a flight. It replaces one that still waits for a worker; that one will not start."""
        self._by_key[flight.key] = flight
        return flight

    def has(self, flight: Flight[K, V]) -> bool:
        return self._by_key.get(flight.key) is flight

    def remove(self, flight: Flight[K, V]) -> None:
        if self.has(flight):
            del self._by_key[flight.key]

    def overtake(self, key: K) -> None:
        """The key has changed. A running load stays registered, so that no second one starts, but becomes invalid."""
        flight = self._by_key.get(key)
        if flight is None:
            return
        flight.valid = False
        if flight.thread is None:
            del self._by_key[key]

    def overtake_all(self) -> None:
        for key in list(self._by_key):
            self.overtake(key)

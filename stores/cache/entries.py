"""The entries of a cache, with an index that readers use without a lock, over cachetools' LRU."""

from typing import Generic

from cachetools import LRUCache

from stores.cache.protocol import Absent, K, V

_SLACK = 8
"""An entry is moved to the recent end at most once per 1/8 of the cache's size of new entries."""


class Entry(Generic[V]):
    """One value and its clocks. Its identity matters: a reload replaces the entry that it started from, no other."""

    __slots__ = ("expires_at", "failures", "fresh_until", "move_after", "value")

    def __init__(self, value: V | Absent, fresh_until: float, expires_at: float) -> None:
        self.value = value
        self.fresh_until = fresh_until
        """Before this a hit has nothing to do. Later there is a reload to start, or the entry has expired."""
        self.expires_at = expires_at
        self.failures = 0
        """Reloads that failed in a row."""
        self.move_after = 0


class Entries(Generic[K, V]):
    """All methods but `index`'s look-up need the cache's lock: cachetools is not thread-safe, its reads mutate.

    Readers look into `index`, a plain dict, so a hit takes no lock. They report a read only when the entry's place in
    the LRU order may matter: nothing is evicted unless something is added, so an entry that was moved less than 1/8 of
    the size in new entries ago stays where it is. The order is exact up to that many additions.
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
        """The entry has been read."""
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
    """Tells its owner what it evicts."""

    def __init__(self, max_entries: int, owner: Entries[K, V]) -> None:
        super().__init__(max_entries)
        self._owner = owner

    def popitem(self) -> tuple[K, Entry[V]]:
        key, entry = super().popitem()
        del self._owner.index[key]
        self._owner.evicted += 1
        return key, entry

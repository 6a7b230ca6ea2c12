"""The entries of a cache, over cachetools' LRU, with an index that readers use without a lock."""

from typing import Generic

from cachetools import LRUCache

from stores.cache.protocol import Absent, K, V

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

"""Loads that are under way: at most one per key."""

import threading
from typing import Generic

from stores.cache.entries import Entry
from stores.cache.protocol import ABSENT, Absent, K, V


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
    """The flights of a cache by key. Needs the cache's lock."""

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

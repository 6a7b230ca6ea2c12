"""The cache itself: hits take no lock, everything else takes one. It is never held during a load or a wait."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from stores.cache.entries import Entry, Flight
from stores.cache.preload import Filling
from stores.cache.protocol import (
    ABSENT,
    Absent,
    BatchLoader,
    CacheStatistics,
    Executor,
    K,
    Loader,
    MonotonicClock,
    Policy,
    V,
)
from stores.cache.state import Guard, State
from stores.errors import Fatal, Retryable

D = TypeVar("D")


class RefreshAfterWriteCache(Generic[K, V]):
    """Keys and their values, loaded on demand, reloaded in the background, bounded in number. Thread-safe.

    Like Caffeine: the first read after the refresh interval gets the old value at once and starts one reload.

    It belongs to the process that created it: a forked child has neither its workers nor a lock it could trust, and
    gets Fatal at its first miss.
    """

    def __init__(
        self,
        loader: Loader[K, V],
        policy: Policy,
        executor: Executor,
        *,
        clock: MonotonicClock = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._loader = loader
        self._load_all = loader.load_all if isinstance(loader, BatchLoader) else None
        self._load_deadline_s = policy.load_deadline_s
        self._executor = executor
        self._clock = clock
        self._guard = Guard()
        self._state: State[K, V] = State(policy, chance)
        self._entries = self._state.entries
        self._index = self._state.entries.index

    # Reads

    def __contains__(self, key: object) -> bool:
        """Whether there is an entry, even one that has expired or says that there is no value. It is not a read."""
        return key in self._index

    def get(self, key: K, /) -> V | Absent:
        """The value, loaded if necessary.

        Raises what the loader raises, and Retryable if another thread's load of this key does not end within the
        deadline.
        """
        # The hit path. A lock here would cost as much as everything else, see docs/adr/0007.
        try:
            entry = self._index[key]
        except KeyError:
            return self._resolve((key,))[key]
        if self._clock() >= entry.fresh_until:
            return self._resolve((key,))[key]
        self._state.hits += 1
        if self._entries.added > entry.move_after:
            self._touch(((key, entry),))
        return entry.value

    def get_many(self, keys: Iterable[K], /) -> dict[K, V]:
        """The values of those keys that have one; raises as `get` does. Values loaded before an error are kept."""
        now = self._clock()
        index, added = self._index, self._entries.added
        found: dict[K, V] = {}
        rest: list[K] = []
        cold: list[tuple[K, Entry[V]]] = []
        hits = 0
        for key in keys:
            entry = index.get(key)
            if entry is None or now >= entry.fresh_until:
                rest.append(key)
                continue
            hits += 1
            if added > entry.move_after:
                cold.append((key, entry))
            value = entry.value
            if value is not ABSENT:
                found[key] = value
        self._state.hits += hits
        if cold:
            self._touch(cold)
        if rest:
            answers = self._resolve(tuple(dict.fromkeys(rest)))
            found.update({key: answer for key, answer in answers.items() if answer is not ABSENT})
        return found

    def get_if_present(self, key: K, default: D, /) -> V | Absent | D:
        """Like `get`, but never waits: `default` where `get` would load. For an event loop."""
        entry = self._index.get(key)
        if entry is None:
            return default
        if self._clock() < entry.fresh_until:
            self._state.hits += 1
            if self._entries.added > entry.move_after:
                self._touch(((key, entry),))
            return entry.value
        with self._guard:
            entry, due = self._living(key, self._clock())
        self._submit(due)
        return default if entry is None else entry.value

    def _living(self, key: K, now: float, *, counts: bool = True) -> tuple[Entry[V] | None, list[Flight[K, V]]]:
        """The entry of a key unless it has expired, and its reload if that is due. Needs the lock."""
        state, entry = self._state, self._index.get(key)
        if entry is None or now >= entry.expires_at:
            return None, []
        state.entries.touch(key, entry)
        state.hits += counts
        if now < entry.fresh_until or key in state.flights:
            return entry, []
        entry.fresh_until = entry.expires_at  # until the reload ends, hits start no other
        return entry, [state.flights.add(Flight(key, entry, in_background=True))]

    def _touch(self, read: Iterable[tuple[K, Entry[V]]]) -> None:
        with self._guard:
            for key, entry in read:
                self._entries.touch(key, entry)

    def _resolve(self, keys: Sequence[K]) -> dict[K, V | Absent]:
        """Answers keys without a fresh entry: with the old value and a reload, a load, or another reader's load."""
        answers: dict[K, V | Absent] = {}
        deadline = self._clock() + self._load_deadline_s
        pending, first = keys, True
        while pending:
            due: list[Flight[K, V]] = []
            own: list[Flight[K, V]] = []
            joined: list[Flight[K, V]] = []
            overtaken: list[Flight[K, V]] = []
            with self._guard:
                state = self._state
                now = self._clock()
                for key in pending:
                    living, its_reload = self._living(key, now, counts=first)
                    if living is not None:
                        answers[key] = living.value
                        due += its_reload
                        continue
                    entry = self._index.get(key)
                    state.misses += first
                    flight = state.flights.running(key)
                    if flight is None:
                        own.append(state.flights.add(Flight(key, entry, in_background=False)))
                    elif flight.valid:
                        flight.base = entry  # this reader needs the result too: keep it although the old entry is gone
                        joined.append(flight)
                    else:
                        overtaken.append(flight)
            self._submit(due)
            # Do own loads before any wait: others may wait for them, and a failed wait would leave them hanging.
            self._load_here(own)
            for flight in own:
                answers[flight.key] = flight.value
            for flight in joined:
                self._await(flight, deadline)
                if flight.error is not None:
                    raise flight.error
                answers[flight.key] = flight.value
            for flight in overtaken:
                self._await(flight, deadline)
            pending, first = tuple(flight.key for flight in overtaken), False
        return answers

    def _await(self, flight: Flight[K, V], deadline: float) -> None:
        if flight.thread == threading.get_ident():
            raise Fatal(
                f"the load of key {flight.key!r} asked the cache for that key", next_step="ask the store instead"
            )
        if not flight.wait(deadline - self._clock()):
            raise Retryable(
                f"another reader's load of key {flight.key!r} did not end within {self._load_deadline_s:g} s",
                next_step="give the loader's driver a shorter timeout, or readers a longer `load_deadline_s`",
            )

    # Loads

    def _groups(self, flights: Sequence[Flight[K, V]]) -> Iterable[Sequence[Flight[K, V]]]:
        """The groups of flights that the loader gets in one call each."""
        if self._load_all is not None and flights:
            return (flights,)
        return ((flight,) for flight in flights)

    def _load_here(self, flights: Sequence[Flight[K, V]]) -> None:
        """Loads for the calling reader. The first failure fails all of these flights, also for readers that wait."""
        for group in self._groups(flights):
            try:
                self._load(group)
            except BaseException as error:
                self._fail(flights, error)
                raise

    def _submit(self, flights: Sequence[Flight[K, V]]) -> None:
        for group in self._groups(flights):
            try:
                self._executor.submit(partial(self._reload, group))
            except RuntimeError as error:  # it was shut down: the entries stay, the failure is counted
                self._fail(group, error)

    def _reload(self, flights: Sequence[Flight[K, V]]) -> None:
        """Runs in a worker, possibly long after the submission."""
        with self._guard.lock:
            wanted = [flight for flight in flights if self._state.flights.has(flight)]
            for flight in wanted:
                flight.start()
        try:
            if wanted:
                self._load(wanted)
        except Exception as error:  # noqa: BLE001 - a loader may raise anything; nobody waits here, so it is counted
            self._fail(wanted, error)
        except BaseException as error:
            self._fail(wanted, error)
            raise

    def _load(self, flights: Sequence[Flight[K, V]]) -> None:
        began = self._clock()
        try:
            if self._load_all is not None and len(flights) > 1:
                loaded = self._load_all([flight.key for flight in flights])
                values = [loaded.get(flight.key, ABSENT) for flight in flights]
            else:
                values = [self._loader.load(flight.key) for flight in flights]
        finally:
            ended = self._clock()
            with self._guard.lock:
                self._state.load_s += ended - began
        with self._guard.lock:
            for flight, value in zip(flights, values, strict=True):
                self._state.land(flight, value, ended)

    def _fail(self, flights: Sequence[Flight[K, V]], error: BaseException) -> None:
        """Ends the flights that have not landed."""
        now = self._clock()
        with self._guard.lock:
            for flight in flights:
                if self._state.flights.has(flight):
                    self._state.fail(flight, error, now)

    # Writes

    def put(self, key: K, value: V, /, *, age_s: float = 0.0) -> None:
        """From now on, reads see this value; the result of a running load is discarded. `age_s`: how long ago it was
        loaded."""
        with self._guard:
            self._state.put(key, value, self._clock() - age_s)

    def put_absent(self, key: K, /) -> None:
        """Like `put`: it has no value. Kept for as long as the policy keeps that."""
        with self._guard:
            self._state.put(key, ABSENT, self._clock())

    def invalidate(self, key: K, /) -> None:
        """No read that begins after this returns a value loaded before it."""
        self.invalidate_many((key,))

    def invalidate_many(self, keys: Iterable[K], /) -> None:
        changed = tuple(keys)  # a generator may use the cache itself
        with self._guard:
            self._state.invalidate(changed)

    def invalidate_all(self) -> None:
        with self._guard:
            self._state.invalidate_all()

    def drop_expired(self) -> int:
        """Removes entries that are not served any more: those that nobody asks for would stay. Not while they are being
        loaded. Returns how many."""
        now = self._clock()
        expired = [key for key, entry in list(self._index.items()) if now >= entry.expires_at]
        with self._guard:
            return sum(self._state.drop_if_expired(key, now) for key in expired)

    @contextmanager
    def filling(self) -> Iterator[Filling[K, V]]:
        """For `preload`: entries added inside the block never overwrite a change of their key since it began."""

        def add(rows: Sequence[tuple[K, V]]) -> None:
            with self._guard:
                self._state.add(filling, rows, self._clock())

        filling: Filling[K, V] = Filling(add)
        with self._guard:
            self._state.fillings.add(filling)
        try:
            yield filling
        finally:
            with self._guard.lock:
                self._state.fillings.remove(filling)

    # Life

    def statistics(self) -> CacheStatistics:
        return self._state.statistics()  # without the lock, so that it never waits: counts may be of different moments

    def close(self, deadline_s: float = 30.0) -> None:
        """Drops all entries and the reloads that wait for a worker, and waits for running loads.

        Raises Retryable if one of these does not end in time; its thread then lives until its loader returns.
        """
        if self._guard.is_inherited:
            return  # this process has none of its threads
        end = self._clock() + deadline_s
        with self._guard.lock:
            self._guard.closed = True
            running = self._state.flights.all_running()
            self._state.invalidate_all()
        for flight in running:
            if not flight.wait(end - self._clock()):
                raise Retryable(f"the load of key {flight.key!r} still ran {deadline_s:g} s after the cache was closed")


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

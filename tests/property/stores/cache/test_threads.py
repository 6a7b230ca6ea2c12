"""Readers, writers, invalidators, preloads and reloads in real threads: what may be observed, whatever the timing."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from stores.cache import Absent, Backoff, Policy, RefreshAfterWriteCache, preload
from stores.errors import Unreachable
from tests.property.stores.cache.versions import Loading, Versions, verdict
from tests.support.seed import random_source, rounds
from tests.unit.stores.cache.by_hand import ManualTime

STEPS = 150
SETTINGS = {
    "roomy": Policy(max_entries=32, refresh_s=2, expire_s=10, load_deadline_s=60, backoff=Backoff(0.5, 2)),
    "tight": Policy(max_entries=5, refresh_s=2, expire_s=10, load_deadline_s=60, backoff=Backoff(0.5, 2)),
    "negative": Policy(
        max_entries=16, refresh_s=2, expire_s=10, absent_expire_s=5, load_deadline_s=60, backoff=Backoff(0.5, 2)
    ),
    "unexpiring": Policy(max_entries=8, refresh_s=1, load_deadline_s=60, backoff=Backoff(0.5, 2)),
}


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class OneKeyLoading:
    """The same loader without its batches."""

    def __init__(self, loading: Loading) -> None:
        self.load = loading.load


class Round:
    """One cache, one store, and threads that use them for a while."""

    def __init__(self, policy: Policy, choice: random.Random) -> None:
        self.policy = policy
        self.choice = choice
        self.versions = Versions([f"k{number}" for number in range(8)])
        self.loading = Loading(self.versions, random.Random(choice.random()))
        self.time = ManualTime()
        self._advancing = threading.Lock()
        self.pool = ThreadPoolExecutor(3)
        self.cache: RefreshAfterWriteCache[str, int] = RefreshAfterWriteCache(
            self.loading if choice.random() < 0.5 else OneKeyLoading(self.loading),
            policy,
            self.pool,
            clock=self.time,
        )
        self.faults: list[str] = []

    def run(self) -> None:
        workers = [self._reader] * 4 + [self._batch_reader] * 2 + [self._writer] * 2 + [self._changer, self._preloader]
        threads = [
            threading.Thread(target=self._guarded, args=(worker, random.Random(self.choice.random())))
            for worker in workers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a thread is stuck"
        self._settle()
        assert self.faults + self.loading.faults == []

    def _guarded(self, work: Callable[[random.Random], None], choice: random.Random) -> None:
        try:
            work(choice)
        except BaseException as error:  # noqa: BLE001 - judged in the main thread
            self.faults.append(f"{work.__name__}: {error!r}")

    def _reader(self, choice: random.Random) -> None:
        seen = dict.fromkeys(self.versions.keys, 0)
        for _ in range(STEPS):
            self._read_many([choice.choice(self.versions.keys)], seen, one=True)
            if choice.random() < 0.2:
                self._pass_time(choice.random())

    def _pass_time(self, seconds: float) -> None:
        with self._advancing:  # a clock that went back would be no monotonic one
            self.time.advance(seconds)

    def _batch_reader(self, choice: random.Random) -> None:
        seen = dict.fromkeys(self.versions.keys, 0)
        for _ in range(STEPS):
            self._read_many(choice.sample(self.versions.keys, choice.randint(1, 5)), seen, one=False)

    def _read_many(self, keys: list[str], seen: dict[str, int], *, one: bool) -> None:
        floors = {key: max(self.versions.floors[key], 1) for key in keys}
        try:
            if one:
                answers = {keys[0]: self.cache.get(keys[0])}
            else:
                found = self.cache.get_many(keys)
                answers = {key: found.get(key, Absent.ABSENT) for key in keys}
        except Unreachable:
            return
        for key, answer in answers.items():
            fault = verdict(key, answer, floors[key], self.versions.current[key])
            if fault is not None:
                self.faults.append(fault)
            if not isinstance(answer, Absent):
                if answer < seen[key]:
                    self.faults.append(f"{key} went back from version {seen[key]} to {answer} before one reader's eyes")
                seen[key] = answer
        entries = self.cache.statistics().entries
        if entries > self.policy.max_entries:
            self.faults.append(f"{entries} entries of at most {self.policy.max_entries}")

    def _writer(self, choice: random.Random) -> None:
        """Changes the store and tells the cache."""
        for _ in range(STEPS):
            key = choice.choice(self.versions.keys)
            how = choice.random()
            if how < 0.05:
                self.versions.change_all(self.cache.invalidate_all)
            elif how < 0.4:
                self._put(key)
            else:
                others = choice.sample(self.versions.keys, 2) if how < 0.6 else []
                self.versions.change(key, lambda _, k=key, o=others: self.cache.invalidate_many([k, *o]))

    def _put(self, key: str) -> None:
        def tell(version: int) -> None:
            if version % 5 == 0:
                self.cache.invalidate(key)
            else:
                self.cache.put(key, version)

        self.versions.change(key, tell)

    def _changer(self, choice: random.Random) -> None:
        """Changes the store and tells nobody: only the passing of time brings this to light."""
        for _ in range(STEPS):
            self.versions.change(choice.choice(self.versions.keys), None)

    def _preloader(self, choice: random.Random) -> None:
        for _ in range(STEPS // 5):
            keys = choice.sample(self.versions.keys, min(len(self.versions.keys), self.policy.max_entries))
            preload(self.cache, partial(self.versions.rows, keys), deadline_s=60)

    def _settle(self) -> None:
        """When all is quiet nothing is lost: no invalidation, no key, no worker."""
        self.pool.shutdown(wait=True)
        self.loading.fails = False
        for key in self.versions.keys:
            fault = verdict(key, self.cache.get(key), self.versions.floors[key], self.versions.current[key])
            if fault is not None:
                self.faults.append(f"at the end: {fault}")
        self.time.advance(1_000)
        if self.policy.expire_s is not None:
            found = self.cache.get_many(self.versions.keys)
            current = dict(self.versions.rows(self.versions.keys))
            if found != current:
                self.faults.append(f"once all had expired: {found} instead of {current}")
        self.cache.close(deadline_s=0)


@pytest.mark.parametrize("policy", list(SETTINGS.values()), ids=list(SETTINGS))
def test_no_thread_ever_sees_what_it_must_not(policy):
    for number in range(rounds(15, 1_000)):
        Round(policy, random_source(f"cache/{policy.max_entries}/{number}")).run()


@pytest.mark.parametrize("policy", list(SETTINGS.values()), ids=list(SETTINGS))
def test_the_rounds_meet_every_kind_of_event(policy):
    """The test above is worth something only while reloads, failures, races and evictions do happen in it."""
    for number in range(20):
        one = Round(policy, random_source(f"events/{policy.max_entries}/{number}"))
        one.run()
        done = one.cache.statistics()
        if all((done.hits, done.misses, done.loads, done.load_failures, done.reloads, done.discarded)):
            return
    raise AssertionError(f"20 rounds without one that had all events, the last one: {done}")

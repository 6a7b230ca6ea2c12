"""A cache in which nothing happens by itself: time passes, workers work and loaders answer when the test says so."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from stores.cache import ABSENT, Absent, Backoff, Policy, RefreshAfterWriteCache
from tests.support.waiting import wait_until

FORGETTING = pytest.mark.parametrize(
    "forget",
    [
        lambda cache: cache.invalidate("a"),
        lambda cache: cache.invalidate_many(["x", "a"]),
        lambda cache: cache.invalidate_all(),
    ],
    ids=["one", "many", "all"],
)
"""Every way to forget `a`."""


class ManualTime:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class ManualExecutor:
    """Keeps what is submitted until the test runs it."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []
        self.is_shut_down = False

    def submit(self, task: Callable[[], None], /) -> object:
        if self.is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.tasks.append(task)
        return None

    def run_all(self) -> int:
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task()
        return len(tasks)


class Source:
    """A store of rows that fails on demand, and the loader in front of it."""

    def __init__(self, **rows: str) -> None:
        self.rows = dict(rows)
        self.asked: list[str] = []
        self.error: BaseException | None = None
        self.during: Callable[[str], object] = lambda _: None
        """Called inside a load, after the row was read and before it is returned."""

    def load(self, key: str, /) -> str | Absent:
        self.asked.append(key)
        row = self.rows.get(key, ABSENT)
        self.during(key)
        if self.error is not None:
            raise self.error
        return row


class BatchSource(Source):
    def __init__(self, **rows: str) -> None:
        super().__init__(**rows)
        self.batches: list[list[str]] = []

    def load_all(self, keys: Sequence[str], /) -> Mapping[str, str]:
        self.batches.append(list(keys))
        rows = {key: self.rows[key] for key in keys if key in self.rows}
        for key in keys:
            self.during(key)
        if self.error is not None:
            raise self.error
        return rows


class Gate:
    """Holds loads of a source until it is opened."""

    def __init__(self, source: Source) -> None:
        self.entered = threading.Event()
        self._opened = threading.Event()
        source.during = self._hold

    def _hold(self, _: str) -> None:
        self.entered.set()
        assert self._opened.wait(30), "nobody opened the gate"

    def open(self) -> None:
        self._opened.set()


class Hand:
    """A cache with everything that moves it: refreshed after 10 s, expired after 100 s unless a test says otherwise."""

    def __init__(self, source: Source | None = None, **policy: object) -> None:
        self.source = source or Source(a="a1", b="b1")
        self.time = ManualTime()
        self.executor = ManualExecutor()
        self.chance = 0.0
        defaults: dict[str, object] = {
            "max_entries": 100,
            "refresh_s": 10.0,
            "expire_s": 100.0,
            "backoff": Backoff(first_s=1.0, longest_s=8.0),
        }
        self.cache: RefreshAfterWriteCache[str, str] = RefreshAfterWriteCache(
            self.source,
            Policy(**{**defaults, **policy}),  # type: ignore[arg-type] # checked where it is made
            self.executor,
            clock=self.time,
            chance=lambda: self.chance,
        )

    def refreshed(self) -> int:
        """Runs what waits for a worker."""
        return self.executor.run_all()


class Reader(threading.Thread):
    """Asks once in a thread of its own and keeps the answer."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self.answer: object = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self._ask()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self.error = error

    def result(self) -> object:
        self.join(30)
        assert not self.is_alive(), "the reader still waits"
        if self.error is not None:
            raise self.error
        return self.answer


@contextmanager
def held_load(hand: Hand, ask: Callable[[], object]) -> Iterator[Reader]:
    """Inside the block a reader's load has read its row and not yet returned it."""
    gate = Gate(hand.source)
    reader = Reader(ask)
    try:
        assert gate.entered.wait(30), "no load began"
        hand.source.during = lambda _: None
        yield reader
    finally:
        gate.open()
        reader.join(30)


def wait_for_misses(hand: Hand, misses: int) -> None:
    """Until so many reads have found nothing and so either load or wait."""
    wait_until(lambda: hand.cache.statistics().misses >= misses, what=f"{misses} misses")

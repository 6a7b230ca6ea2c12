"""The comparison of a topic with a store, both as lists: what it calls a difference, how often it looks at a row."""

import threading
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from enrich.base.errors import ConfigError, Unreachable
from enrich.service.routes import RouteState
from stores.external import StoredRows
from sync_service.reconcile import Report, route
from sync_service.reconcile.comparing import Comparison
from sync_service.reconcile.differences import Differences
from sync_service.reconcile.digests import Rows, Texts, digests_of, hashes_of
from sync_service.reconcile.stamps import NONE, stamps_of
from sync_service.reconcile.suspects import Stored, Suspects, TopicBefore, kind_of
from sync_service.writeback.generation import Generation

OLD, NEW = 11, 22
"""Digests of rows."""


@pytest.mark.parametrize(
    ("said", "stored", "counted", "expected"),
    [
        ((5, NEW), (5, NEW), True, ""),
        ((5, NEW), (5, OLD), True, "altered"),
        ((5, NEW), (4, OLD), True, "older"),
        ((5, NEW), (6, OLD), True, "altered"),
        ((5, NEW), (6, OLD), False, "newer"),
        ((5, NEW), (NONE[0], 0), True, "missing"),
        ((5, NEW), (4, 0), True, "missing"),
        ((5, NEW), (6, 0), True, "missing"),
        ((5, NEW), (6, 0), False, "newer"),
        ((5, 0), (6, OLD), True, "extra"),
        ((5, 0), (6, OLD), False, "newer"),
        ((5, 0), (4, OLD), False, "extra"),
        ((5, 0), (4, 0), True, ""),
        ((5, 0), (NONE[0], OLD), True, "foreign"),
        ((5, NEW), (NONE[0], OLD), True, "older"),
        ((NONE[0], 0), (5, OLD), True, "extra"),
        ((NONE[0], 0), (NONE[0], OLD), True, "foreign"),
    ],
)
def test_what_a_difference_is_called(
    said: tuple[int, int], stored: tuple[int, int], counted: bool, expected: str
) -> None:
    (newest, digest), (version, found) = said, stored
    records = {} if newest == NONE[0] else {(newest, 0): digest}
    kind = kind_of(records, (newest, 0), digest != 0, (version, 0), found, counted=counted, unwritable=False)
    assert kind == expected


@pytest.mark.parametrize(
    ("said", "stored", "expected"),
    [
        ((7, NEW), (7, NEW), ""),
        ((7, NEW), (6, NEW), "older"),
        ((7, NEW), (6, OLD), "older"),
        ((7, NEW), (7, OLD), "altered"),
        ((7, NEW), (8, OLD), "newer"),
        ((7, NEW), (6, 0), "missing"),
        ((7, NEW), (8, 0), "newer"),
        ((7, 0), (6, OLD), "extra"),
        ((7, 0), (8, OLD), "newer"),
    ],
)
def test_of_equal_versions_releases_say_which_row_is_older(
    said: tuple[int, int], stored: tuple[int, int], expected: str
) -> None:
    (newest, digest), (release, found) = said, stored
    told = {(5, newest): digest}
    kind = kind_of(told, (5, newest), digest != 0, (5, release), found, counted=False, unwritable=False)
    assert kind == expected


@pytest.mark.parametrize("found", [NEW, OLD])
def test_the_release_of_a_row_whose_version_is_its_offset_says_nothing(found: int) -> None:
    kind = kind_of({(5, 0): NEW}, (5, 0), True, (5, 7), found, counted=True, unwritable=False)
    assert kind == ("" if found == NEW else "altered")


def test_a_row_whose_newest_record_cannot_be_one_is_not_called_extra() -> None:
    assert kind_of({}, NONE, False, (5, 0), OLD, counted=False, unwritable=True) == "unwritable"


def test_what_came_while_the_store_was_asked_is_no_difference() -> None:
    assert kind_of({(5, 0): OLD, (6, 0): NEW}, (5, 0), True, (6, 0), NEW, counted=True, unwritable=False) == ""
    assert kind_of({(5, 0): OLD, (6, 0): 0}, (5, 0), False, (6, 0), 0, counted=True, unwritable=False) == ""


def test_a_row_is_left_for_a_record_that_came_meanwhile_with_a_version_of_its_own() -> None:
    """Of its header or its column: what the store has may be newer, whatever the record before counted by."""
    hashes, yes, no = hashes_of([b"a"]), np.array([True]), np.array([False])
    old, new = np.array([OLD], np.uint64), np.array([NEW], np.uint64)
    suspects = Suspects(pa.array([b"a"], pa.binary()), hashes, stamps_of([5]), old, yes, no, stamps_of([9]))
    came = Rows(hashes, no, np.array([6]), np.array([-6]), stamps_of([6]), new, yes, no)
    suspects.follow(cast(Any, SimpleNamespace(compared=came)))
    (verdict,) = suspects.verdicts(TopicBefore(suspects), Stored([stamps_of([9])], [old]))
    assert (verdict.kind, verdict.topic_version, verdict.store_version) == ("newer", 6, 9)


class Topic:
    """Records of one partition, one a key."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.unwritable = 0
        self.unwritable_keys: list[Any] = []
        self.read = 0

    def check(self) -> None: ...

    def forget_unwritable(self) -> None: ...

    def parts(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Any]:
        assert not starts and ends
        for start in range(0, self.count, 1_000):
            numbers = np.arange(start, min(start + 1_000, self.count))
            flags = np.ones(len(numbers), bool)
            hashes, digests = hashes_of(_keys(numbers)), digests_of([_row(int(n)) for n in numbers])
            versions = stamps_of(numbers)
            yield SimpleNamespace(compared=Rows(hashes, ~flags, numbers, -numbers, versions, digests, flags, flags))
            self.read += len(numbers)

    def keys(self, ends: Mapping[int, int]) -> Iterator[list[bytes]]:
        assert ends
        for start in range(0, self.count, 1_000):
            yield _keys(np.arange(start, min(start + 1_000, self.count)))
        self.read += self.count


class Store:
    """Has some of the rows."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.told = 0

    def scan(self) -> Iterator[StoredRows]:
        for start in range(0, len(self.numbers), 1_000):
            some = self.numbers[start : start + 1_000]
            self.told += len(some)
            yield StoredRows(_keys(some), some, [_row(number) for number in some])

    def fetch(self, keys: Sequence[bytes]) -> StoredRows:
        self.told += len(keys)
        found = set(self.numbers)
        numbers = [int(key) if int(key) in found else None for key in keys]
        return StoredRows(keys, numbers, [None if number is None else _row(number) for number in numbers])


def _keys(numbers: Any) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def _row(number: int) -> Texts:
    return (b"plan-%d" % number,)


def compared(topic: Topic, store: Store) -> list[tuple[bytes, str]]:
    comparison = Comparison(cast(Any, topic), cast(Any, store), lambda: {0: topic.count}, lambda _: None)
    return [(one.key, one.kind) for one in comparison.differences({0: topic.count})]


def test_rows_are_found_missing_and_extra() -> None:
    topic, store = Topic(5_000), Store([*range(3), *range(5, 5_002)])
    assert sorted(compared(topic, store)) == [
        (b"3", "missing"),
        (b"4", "missing"),
        (b"5000", "extra"),
        (b"5001", "extra"),
    ]


@pytest.mark.parametrize("count", [2_000, 20_000])
def test_of_an_emptied_store_each_row_is_read_twice_and_asked_for_once(count: int) -> None:
    topic, store = Topic(count), Store([])
    assert len(compared(topic, store)) == count
    assert (topic.read, store.told) == (2 * count, count)


def test_what_a_missing_row_takes_of_memory_does_not_grow_with_their_number() -> None:
    peaks = []
    for count in (10_000, 50_000):
        comparison = Comparison(cast(Any, Topic(count)), cast(Any, Store([])), lambda: {0: 0}, lambda _: None)
        tracemalloc.start()
        found = comparison.differences({0: 0})
        peaks.append(tracemalloc.get_traced_memory()[1] / count)
        tracemalloc.stop()
        assert len(found) == count
    assert peaks[1] < 1.2 * peaks[0] + 10
    assert peaks[1] < 400


def test_a_doubt_is_compared_until_that_succeeds_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()
    answers: list[Any] = [Unreachable("the store is away"), Report("out", 1, Differences.none(), 1)]
    looks: list[int] = []

    class Scripted:
        def __init__(self, *_: object) -> None: ...

        def noted(self) -> Generation:
            looks.append(len(answers))
            if len(looks) == 5:
                stopping.set()
            return Generation(1, "id", doubt="away for long")

        def run(self, *, repair: bool) -> Report:  # noqa: ARG002 - see the other one
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return cast(Report, answer)

    monkeypatch.setattr(route, "Reconciliation", Scripted)
    monkeypatch.setattr(route, "_LOOK_S", 0.001)
    section = SimpleNamespace(reconcile=timedelta(days=1))
    compares = route.ReconcileRoute(cast(Any, SimpleNamespace(name="out", section=section)), cast(Any, None))
    compares.run(stopping)
    assert looks == [2, 1, 0, 0, 0]
    assert compares.status().last_error is None and compares.status().counters == {"reconciliations": 1}


def test_a_comparison_that_fails_is_told_and_the_service_stays_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()
    answers: list[Any] = [
        Unreachable("the store is away"),
        ConfigError("no table"),
        Report("out", 1, Differences.none(), 1),
    ]
    told: list[tuple[RouteState, str | None]] = []

    class Scripted:
        def __init__(self, *_: object) -> None: ...

        def run(self, *, repair: bool) -> Report:
            assert not repair
            told.append((compares.status().state, compares.status().last_error))
            if len(answers) == 1:
                stopping.set()
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return cast(Report, answer)

    monkeypatch.setattr(route, "Reconciliation", Scripted)
    section = SimpleNamespace(reconcile=timedelta(milliseconds=1))
    compares = route.ReconcileRoute(cast(Any, SimpleNamespace(name="out", section=section)), cast(Any, None))
    compares.run(stopping)
    assert told == [
        (RouteState.running, None),
        (RouteState.running, "the store is away"),
        (RouteState.running, "no table"),
    ]
    assert compares.status().last_error is None and compares.status().counters == {"reconciliations": 1}

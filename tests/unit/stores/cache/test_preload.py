"""Preloading: every entry is there before anyone relies on it, and nothing that happens meanwhile is undone."""

import pytest

from stores.cache import Preloaded, preload
from stores.errors import ConfigError, Retryable, Unreachable
from tests.unit.stores.cache.by_hand import FORGETTING, Gate, Hand, Reader, Source

ROWS = [(f"k{number}", f"v{number}") for number in range(2_500)]


def test_after_a_preload_every_read_is_a_hit():
    hand = Hand(max_entries=2_500)
    done = preload(hand.cache, lambda: ROWS, deadline_s=30, clock=hand.time)
    assert (done.read, done.kept) == (2_500, 2_500)
    assert hand.cache.get_many(key for key, _ in ROWS) == dict(ROWS)
    assert hand.source.asked == []


def test_preloaded_entries_are_refreshed_and_expire_as_loaded_ones_do():
    hand = Hand()
    preload(hand.cache, lambda: [("a", "old")], deadline_s=30, clock=hand.time)
    hand.time.advance(10)
    assert hand.cache.get("a") == "old"
    hand.refreshed()
    assert hand.cache.get("a") == "a1"


def test_progress_is_reported_after_each_thousand_and_at_the_end():
    hand = Hand(max_entries=2_500)
    seen: list[Preloaded] = []

    def rows():
        for row in ROWS:
            hand.time.advance(0.001)
            yield row

    preload(hand.cache, rows, deadline_s=30, expected=2_500, report=seen.append, clock=hand.time)
    assert [(p.read, p.kept, p.expected) for p in seen] == [
        (1_000, 1_000, 2_500),
        (2_000, 2_000, 2_500),
        (2_500, 2_500, 2_500),
    ]
    assert seen[-1].rows_per_s == pytest.approx(1_000, rel=0.01)


def test_a_preload_past_its_deadline_says_how_far_it_came_and_keeps_what_it_read():
    hand = Hand(max_entries=2_500)

    def slow_rows():
        for row in ROWS:
            hand.time.advance(1)
            yield row

    with pytest.raises(Retryable, match=r"had read 31 of 2,500 entries when its 30 s were over"):
        preload(hand.cache, slow_rows, deadline_s=30, expected=2_500, clock=hand.time)
    assert hand.cache.statistics().entries == 31


def test_a_preload_that_does_not_fit_is_refused_instead_of_evicting_what_it_brought():
    hand = Hand(max_entries=2_499)
    with pytest.raises(ConfigError, match="more entries than the 2,499"):
        preload(hand.cache, lambda: ROWS, deadline_s=30, clock=hand.time)
    assert hand.cache.statistics().evictions == 0


def test_a_row_that_comes_twice_takes_one_place():
    hand = Hand(max_entries=2)
    preload(hand.cache, lambda: [("a", "1"), ("a", "2"), ("b", "1")], deadline_s=30, clock=hand.time)
    assert hand.cache.get_many("ab") == {"a": "2", "b": "1"}


def test_a_failing_loader_fails_the_preload():
    hand = Hand()

    def rows():
        yield ("a", "a1")
        raise Unreachable("the store is away")

    with pytest.raises(Unreachable):
        preload(hand.cache, rows, deadline_s=30, clock=hand.time)


@FORGETTING
def test_what_is_invalidated_while_a_preload_reads_is_not_brought_back(forget):
    hand = Hand()

    def rows():
        snapshot = [("a", "old"), ("b", "b1")]
        forget(hand.cache)
        yield from snapshot

    preload(hand.cache, rows, deadline_s=30, clock=hand.time)
    assert hand.cache.get("a") == "a1"


def test_what_is_put_or_loaded_while_a_preload_reads_stays():
    hand = Hand()

    def rows():
        snapshot = [("a", "old"), ("b", "old"), ("c", "c1")]
        hand.cache.put("a", "put")
        hand.cache.get("b")
        yield from snapshot

    done = preload(hand.cache, rows, deadline_s=30, clock=hand.time)
    assert (done.read, done.kept) == (3, 1)
    assert hand.cache.get_many("abc") == {"a": "put", "b": "b1", "c": "c1"}


def test_what_a_load_found_gone_while_a_preload_reads_stays_gone():
    hand = Hand()

    def rows():
        snapshot = [("x", "old")]
        hand.cache.get("x")
        yield from snapshot

    preload(hand.cache, rows, deadline_s=30, clock=hand.time)
    assert hand.cache.statistics().entries == 0


def test_what_an_overtaken_load_showed_its_reader_is_not_followed_by_an_older_row():
    hand = Hand(Source(a="new"))

    def rows():
        yield ("a", "old")
        gate.open()
        assert reader.result() == "new"

    gate = Gate(hand.source)
    reader = Reader(lambda: hand.cache.get("a"))
    assert gate.entered.wait(30)
    hand.cache.invalidate("a")
    preload(hand.cache, rows, deadline_s=30, clock=hand.time)
    assert hand.cache.get("a") == "new"


def test_a_key_that_is_being_loaded_is_left_to_its_load():
    hand = Hand()
    hand.source.during = lambda _: preload(hand.cache, lambda: [("a", "old")], deadline_s=30, clock=hand.time)
    assert hand.cache.get("a") == "a1"
    assert hand.cache.get("a") == "a1"


def test_a_second_preload_replaces_what_the_first_one_brought():
    hand = Hand()
    preload(hand.cache, lambda: [("a", "1")], deadline_s=30, clock=hand.time)
    preload(hand.cache, lambda: [("a", "2")], deadline_s=30, clock=hand.time)
    assert hand.cache.get("a") == "2"


def test_of_two_preloads_at_once_the_rows_that_come_first_stay():
    hand = Hand()

    def rows():
        yield ("a", "older")
        preload(hand.cache, lambda: [("a", "newer")], deadline_s=30, clock=hand.time)

    preload(hand.cache, rows, deadline_s=30, clock=hand.time)
    assert hand.cache.get("a") == "newer"


def test_a_preload_that_has_ended_holds_nothing_back():
    hand = Hand()
    preload(hand.cache, lambda: [("a", "1")], deadline_s=30, clock=hand.time)
    hand.cache.invalidate("a")
    preload(hand.cache, lambda: [("a", "2")], deadline_s=30, clock=hand.time)
    assert hand.cache.get("a") == "2"

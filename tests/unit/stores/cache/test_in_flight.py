"""Several readers at once: one load in flight a key, who waits for it and for how long."""

from functools import partial

import pytest

from stores.cache import ABSENT
from stores.errors import Fatal, Retryable, Unreachable
from tests.support.waiting import wait_until
from tests.unit.stores.cache.by_hand import (
    FORGETTING,
    BatchSource,
    Gate,
    Hand,
    Reader,
    Source,
    held_load,
    wait_for_misses,
)


def test_readers_of_a_missing_key_share_one_load():
    hand = Hand()
    with held_load(hand, lambda: hand.cache.get("a")) as first:
        others = [Reader(lambda: hand.cache.get("a")) for _ in range(3)]
        wait_for_misses(hand, 4)
    assert [reader.result() for reader in (first, *others)] == ["a1"] * 4
    assert hand.source.asked == ["a"]


def test_readers_that_share_a_load_share_its_failure_and_the_next_reader_tries_again():
    hand = Hand()
    with held_load(hand, lambda: hand.cache.get("a")) as first:
        second = Reader(lambda: hand.cache.get("a"))
        wait_for_misses(hand, 2)
        hand.source.error = Unreachable("the store is away")
    for reader in (first, second):
        with pytest.raises(Unreachable):
            reader.result()
    hand.source.error = None
    assert hand.cache.get("a") == "a1"
    assert hand.source.asked == ["a", "a"]


def test_a_reader_waits_for_anothers_load_no_longer_than_the_deadline():
    hand = Hand(load_deadline_s=0.01)
    with held_load(hand, lambda: hand.cache.get("a")) as first:
        with pytest.raises(Retryable, match=r"key 'a' did not end within 0\.01 s"):
            hand.cache.get("a")
        assert hand.cache.get("b") == "b1", "other keys do not wait"
    assert first.result() == "a1"


def test_a_reader_of_an_expired_entry_waits_for_the_reload_that_runs_and_what_it_brings_is_kept():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    hand.cache.get("a")
    hand.source.rows["a"] = "a2"
    with held_load(hand, hand.refreshed):
        hand.time.advance(90)
        reader = Reader(lambda: hand.cache.get("a"))
        wait_for_misses(hand, 2)
    assert reader.result() == "a2"
    assert hand.cache.get("a") == "a2"
    assert hand.source.asked == ["a", "a"]


def test_a_reader_that_joins_the_reload_of_an_evicted_entry_keeps_what_it_brings():
    hand = Hand(max_entries=1)
    hand.cache.get("a")
    hand.time.advance(10)
    hand.cache.get("a")
    with held_load(hand, hand.refreshed):
        hand.cache.put("b", "put")
        reader = Reader(lambda: hand.cache.get("a"))
        wait_for_misses(hand, 2)
    assert reader.result() == "a1"
    assert hand.cache.get("a") == "a1"
    assert hand.source.asked == ["a", "a"]


@FORGETTING
def test_a_read_that_begins_after_an_invalidation_never_gets_the_load_that_began_before_it(forget):
    hand = Hand()
    with held_load(hand, lambda: hand.cache.get("a")) as before:
        hand.source.rows["a"] = "a2"
        forget(hand.cache)
        after = Reader(lambda: hand.cache.get("a"))
        wait_for_misses(hand, 2)
        assert hand.source.asked == ["a"], "one load at a time: it waits for the first one to end"
    assert before.result() == "a1", "this read began before"
    assert after.result() == "a2"
    assert hand.cache.get("a") == "a2"
    assert hand.source.asked == ["a", "a"]


def test_a_put_beats_a_load_in_flight_for_the_readers_that_wait_for_it_too():
    hand = Hand()
    with held_load(hand, lambda: hand.cache.get("a")) as first:
        second = Reader(lambda: hand.cache.get("a"))
        wait_for_misses(hand, 2)
        hand.cache.put("a", "put")
    assert first.result() == second.result() == hand.cache.get("a") == "put", "else a reader could see it go back"


def test_a_batch_loads_its_own_keys_before_it_waits_for_those_of_others():
    hand = Hand(Source(a="a1", b="b1", c="c1"))
    with held_load(hand, lambda: hand.cache.get("a")) as first:
        batch = Reader(partial(hand.cache.get_many, ["a", "b", "c"]))
        wait_until(lambda: hand.cache.statistics().entries == 2, what="b and c")
        hand.source.error = Unreachable("the store is away")
    for reader in (first, batch):
        with pytest.raises(Unreachable):
            reader.result()
    assert hand.cache.get_many(["b", "c"]) == {"b": "b1", "c": "c1"}


def test_readers_that_wait_for_the_rest_of_a_failed_batch_fail_with_it():
    hand = Hand()
    gate = Gate(hand.source)
    batch = Reader(lambda: hand.cache.get_many(["a", "b"]))
    assert gate.entered.wait(30)
    other = Reader(lambda: hand.cache.get("b"))
    wait_for_misses(hand, 3)
    hand.source.error = Unreachable("the store is away")
    gate.open()
    for reader in (batch, other):
        with pytest.raises(Unreachable):
            reader.result()
    hand.source.error = None
    assert hand.cache.get("b") == "b1"


def test_a_loader_that_asks_the_cache_for_its_own_key_is_told_so():
    hand = Hand()
    hand.source.during = lambda key: hand.cache.get(key)
    with pytest.raises(Fatal, match="asked the cache for that key"):
        hand.cache.get("a")


def test_an_interrupted_load_does_not_block_its_key():
    hand = Hand()
    hand.source.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        hand.cache.get("a")
    hand.source.error = None
    assert hand.cache.get("a") == "a1"


def test_an_interrupted_reload_does_not_block_its_key():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    hand.cache.get("a")
    hand.source.error = SystemExit()
    with pytest.raises(SystemExit):
        hand.refreshed()
    hand.source.error = None
    hand.time.advance(1)
    assert hand.cache.get("a") == "a1"
    assert hand.refreshed() == 1


def test_what_a_loader_of_batches_does_not_name_is_absent():
    hand = Hand(BatchSource())
    assert hand.cache.get_many(["x", "y"]) == {}
    assert hand.cache.get("x") is ABSENT

"""Puts, invalidations and evictions, also while a load is in flight; entries that say there is nothing."""

from stores.cache import ABSENT
from stores.errors import Unreachable
from tests.unit.stores.cache.by_hand import FORGETTING, Hand, held_load


def due_for_reload(hand: Hand, key: str = "a") -> None:
    hand.cache.get(key)
    hand.time.advance(10)
    hand.cache.get(key)
    assert len(hand.executor.tasks) == 1


def test_a_put_answers_from_then_on_and_lives_as_long_as_a_loaded_value():
    hand = Hand()
    hand.cache.put("a", "put")
    assert hand.cache.get("a") == "put"
    hand.time.advance(10)
    assert hand.cache.get("a") == "put"
    assert hand.refreshed() == 1
    assert hand.cache.get("a") == "a1"


@FORGETTING
def test_an_invalidated_key_is_loaded_again(forget):
    hand = Hand()
    hand.cache.get("a")
    hand.source.rows["a"] = "a2"
    forget(hand.cache)
    assert hand.cache.get("a") == "a2"


@FORGETTING
def test_an_invalidation_beats_a_reload_that_waits_for_a_worker(forget):
    hand = Hand()
    due_for_reload(hand)
    forget(hand.cache)
    assert hand.refreshed() == 1
    assert hand.source.asked == ["a"], "it did not even ask"
    assert hand.cache.statistics().entries == 0


@FORGETTING
def test_an_invalidation_beats_a_reload_that_has_already_read(forget):
    hand = Hand()
    due_for_reload(hand)
    hand.source.during = lambda _: forget(hand.cache)
    hand.refreshed()
    assert hand.cache.statistics().entries == 0
    assert hand.cache.statistics().discarded == 1


def test_a_put_beats_a_reload_that_has_already_read():
    hand = Hand()
    due_for_reload(hand)
    hand.source.during = lambda _: hand.cache.put("a", "put")
    hand.refreshed()
    assert hand.cache.get("a") == "put"


def test_a_put_and_an_invalidation_together_beat_a_load_that_started_from_nothing():
    hand = Hand()

    def put_and_forget(_):
        hand.cache.put("a", "put")
        hand.cache.invalidate("a")

    hand.source.during = put_and_forget
    assert hand.cache.get("a") == "a1", "this read began before"
    assert hand.cache.statistics().entries == 0


def test_a_put_beats_a_load_even_if_it_was_evicted_before_the_load_ended():
    hand = Hand(max_entries=1)

    def put_both(_):
        hand.cache.put("a", "put")
        hand.cache.put("b", "put")

    hand.source.during = put_both
    hand.cache.get("a")
    hand.source.during = lambda _: None
    hand.source.rows["a"] = "a2"
    assert hand.cache.get("a") == "a2", "the load began before the put"


def test_a_put_drops_the_reload_that_waits_for_a_worker():
    hand = Hand()
    due_for_reload(hand)
    hand.cache.put("a", "put")
    hand.refreshed()
    assert hand.source.asked == ["a"]


def test_a_reload_whose_entry_was_evicted_brings_nothing_back():
    hand = Hand(max_entries=1)
    due_for_reload(hand)
    hand.cache.put("b", "put")
    hand.refreshed()
    assert hand.cache.get("b") == "put"
    assert hand.cache.statistics().entries == 1
    assert hand.cache.statistics().discarded == 1


def test_a_failed_reload_leaves_a_put_that_came_in_between_alone():
    hand = Hand()
    due_for_reload(hand)

    def put(_):
        hand.cache.put("a", "put")
        hand.source.error = Unreachable("the store is away")

    hand.source.during = put
    hand.refreshed()
    hand.source.during = lambda _: None
    hand.time.advance(9.9)
    assert hand.cache.get("a") == "put"
    assert hand.executor.tasks == []
    hand.time.advance(0.1)
    hand.cache.get("a")
    assert len(hand.executor.tasks) == 1


def test_a_put_that_is_due_while_an_overtaken_reload_still_runs_starts_no_second_one():
    hand = Hand()
    due_for_reload(hand)
    with held_load(hand, hand.refreshed) as worker:
        hand.cache.put("a", "put")
        hand.time.advance(10)
        assert hand.cache.get("a") == "put"
        assert hand.executor.tasks == []
    worker.result()
    assert hand.cache.get("a") == "put"
    assert hand.refreshed() == 1


def test_the_number_of_entries_is_bounded_and_what_was_not_read_goes_first():
    hand = Hand(max_entries=3)
    for key in "abc":
        hand.cache.put(key, key)
    assert hand.cache.get("a") == "a"
    hand.cache.put("d", "d")  # b goes
    assert hand.cache.get_many(["a", "c"]) == {"a": "a", "c": "c"}
    hand.cache.put("e", "e")  # d goes, the others were read since
    assert hand.source.asked == []
    assert hand.cache.statistics().entries == 3
    assert hand.cache.statistics().evictions == 2
    assert hand.cache.get_many("ace") == {"a": "a", "c": "c", "e": "e"}
    assert hand.source.asked == []


def test_what_is_read_survives_a_stream_of_keys_that_are_read_once():
    hand = Hand(max_entries=80)
    hot = [f"hot{n}" for n in range(40)]
    for key in hot:
        hand.cache.put(key, key)
    for number in range(1_000):
        hand.cache.put(f"once{number}", "x")
        hand.cache.get(hot[number % len(hot)])
    assert hand.source.asked == []
    assert hand.cache.statistics().entries == 80


def test_without_negative_entries_every_read_of_an_absent_key_asks():
    hand = Hand()
    assert hand.cache.get("x") is ABSENT
    assert hand.cache.get("x") is ABSENT
    assert hand.source.asked == ["x", "x"]
    assert hand.cache.statistics().entries == 0


def test_a_negative_entry_answers_until_its_own_expiry():
    hand = Hand(absent_expire_s=20.0)
    assert hand.cache.get("x") is ABSENT
    hand.source.rows["x"] = "x1"
    hand.time.advance(19.9)
    assert hand.cache.get("x") is ABSENT
    assert hand.cache.get_many(["x"]) == {}
    assert hand.source.asked == ["x"]
    assert hand.executor.tasks == [], "it is not refreshed"
    hand.time.advance(0.1)
    assert hand.cache.get("x") == "x1"


def test_a_reload_that_finds_nothing_makes_a_negative_entry():
    hand = Hand(absent_expire_s=20.0)
    due_for_reload(hand)
    del hand.source.rows["a"]
    hand.refreshed()
    hand.source.rows["a"] = "a2"
    assert hand.cache.get("a") is ABSENT
    hand.time.advance(20)
    assert hand.cache.get("a") == "a2"


def test_a_put_and_an_invalidation_end_a_negative_entry():
    hand = Hand(absent_expire_s=20.0)
    hand.cache.get("x")
    hand.cache.put("x", "put")
    assert hand.cache.get("x") == "put"
    hand.cache.get("y")
    hand.source.rows["y"] = "y1"
    hand.cache.invalidate("y")
    assert hand.cache.get("y") == "y1"

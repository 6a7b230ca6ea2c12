"""Reads, refresh and expiry: what a reader gets at which age, and when a reload starts."""

import pytest

from stores.cache import ABSENT, Backoff
from stores.errors import Unreachable
from tests.unit.stores.cache.by_hand import BatchSource, Hand


def test_a_miss_loads_and_a_fresh_entry_answers_without_the_loader():
    hand = Hand()
    assert hand.cache.get("a") == "a1"
    hand.source.rows["a"] = "a2"
    hand.time.advance(9.9)
    assert hand.cache.get("a") == "a1"
    assert hand.source.asked == ["a"]
    assert hand.executor.tasks == []


def test_the_first_read_after_the_interval_gets_the_old_value_and_the_next_one_the_new():
    hand = Hand()
    hand.cache.get("a")
    hand.source.rows["a"] = "a2"
    hand.time.advance(10)
    assert hand.cache.get("a") == "a1"
    assert hand.source.asked == ["a"], "the reader itself must not load"
    assert hand.refreshed() == 1
    assert hand.cache.get("a") == "a2"


def test_however_many_reads_there_are_one_reload_a_key_is_started():
    hand = Hand()
    hand.cache.get("a")
    hand.cache.get("b")
    hand.time.advance(10)
    for _ in range(5):
        hand.cache.get("a")
        hand.cache.get_many(["a", "b"])
    assert hand.refreshed() == 2
    assert sorted(hand.source.asked) == ["a", "a", "b", "b"]


def test_a_successful_reload_restarts_both_clocks():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(95)
    hand.cache.get("a")
    hand.refreshed()
    hand.source.rows["a"] = "a2"
    hand.time.advance(9.9)
    assert hand.cache.get("a") == "a1"
    assert hand.executor.tasks == [], "not yet due again"
    hand.time.advance(85)
    assert hand.cache.get("a") == "a1", "its expiry counts from the reload"


def test_nobody_reads_nobody_reloads():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(50)
    assert hand.executor.tasks == []


def test_expiry_is_checked_before_refresh_an_expired_entry_is_loaded_by_its_reader():
    hand = Hand()
    hand.cache.get("a")
    hand.source.rows["a"] = "a2"
    hand.time.advance(100)
    assert hand.cache.get("a") == "a2"
    assert hand.executor.tasks == []


def test_an_entry_that_expires_while_its_reload_waits_for_a_worker_is_loaded_by_its_reader():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    hand.cache.get("a")
    hand.time.advance(90)
    hand.source.rows["a"] = "a2"
    assert hand.cache.get("a") == "a2"
    hand.source.rows["a"] = "a3"
    hand.refreshed()
    assert hand.cache.get("a") == "a2", "the overtaken reload did not run"
    assert hand.source.asked == ["a", "a"]


def test_without_a_refresh_interval_entries_only_expire():
    hand = Hand(refresh_s=None)
    hand.cache.get("a")
    hand.time.advance(99)
    assert hand.cache.get("a") == "a1"
    assert hand.executor.tasks == []


def test_without_any_interval_entries_stay_for_ever():
    hand = Hand(refresh_s=None, expire_s=None)
    hand.cache.get("a")
    hand.time.advance(1e9)
    assert hand.cache.get("a") == "a1"
    assert hand.source.asked == ["a"]


def test_a_failed_reload_leaves_value_and_write_time_untouched():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    hand.source.error = Unreachable("the store is away")
    assert hand.cache.get("a") == "a1"
    hand.refreshed()
    assert hand.cache.get("a") == "a1"
    hand.time.advance(89.9)
    assert hand.cache.get("a") == "a1"
    hand.time.advance(0.1)
    with pytest.raises(Unreachable):
        hand.cache.get("a")  # it expires 100 s after its write, whatever failed since


def test_the_back_off_of_a_failed_reload_does_not_outlive_the_expiry():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(99.5)
    hand.source.error = Unreachable("the store is away")
    assert hand.cache.get("a") == "a1"
    hand.refreshed()
    hand.time.advance(0.5)
    with pytest.raises(Unreachable):
        hand.cache.get("a")


def test_reloads_that_fail_back_off_exponentially_up_to_a_ceiling_and_not_every_read_retries():
    hand = Hand(expire_s=10_000.0)
    hand.cache.get("a")
    hand.time.advance(10)
    hand.source.error = Unreachable("the store is away")
    for delay in (1, 2, 4, 8, 8, 8):
        hand.cache.get("a")
        assert hand.refreshed() == 1
        hand.time.advance(delay - 0.01)
        assert hand.cache.get("a") == "a1"
        assert hand.executor.tasks == [], f"a retry before {delay} s had passed"
        hand.time.advance(0.01)


def test_a_success_forgets_the_failures_before_it():
    hand = Hand()
    hand.cache.get("a")
    for error in (Unreachable("away"), Unreachable("away"), None, Unreachable("away")):
        hand.time.advance(10)
        hand.source.error = error
        hand.cache.get("a")
        assert hand.refreshed() == 1
    hand.time.advance(1)
    hand.cache.get("a")
    assert len(hand.executor.tasks) == 1, "the first delay again"


def test_the_back_off_is_shortened_by_chance_up_to_half():
    backoff = Backoff(first_s=2.0, longest_s=60.0)
    assert backoff.delay_s(1, 0.0) == 2.0
    assert backoff.delay_s(3, 0.5) == 6.0
    assert backoff.delay_s(10_000, 0.0) == 60.0
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    hand.source.error = Unreachable("the store is away")
    hand.chance = 0.5
    hand.cache.get("a")
    hand.refreshed()
    hand.time.advance(0.75)
    hand.cache.get("a")
    assert len(hand.executor.tasks) == 1


def test_a_reload_that_finds_nothing_removes_the_entry():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    del hand.source.rows["a"]
    assert hand.cache.get("a") == "a1"
    hand.refreshed()
    assert hand.cache.statistics().entries == 0
    assert hand.cache.get("a") is ABSENT


def test_an_executor_that_takes_nothing_more_costs_freshness_and_no_read():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    hand.executor.is_shut_down = True
    assert hand.cache.get("a") == "a1"
    assert hand.cache.get("a") == "a1"
    assert hand.cache.statistics().reload_failures == 1


def test_a_batch_is_loaded_in_one_call_and_reloaded_in_one_task():
    source = BatchSource(a="a1", b="b1", c="c1")
    hand = Hand(source)
    hand.cache.get("c")
    assert hand.cache.get_many(["a", "b", "a", "x", "c"]) == {"a": "a1", "b": "b1", "c": "c1"}
    assert source.batches == [["a", "b", "x"]]
    source.rows.update(a="a2", b="b2")
    hand.time.advance(10)
    assert hand.cache.get_many(["a", "b"]) == {"a": "a1", "b": "b1"}
    assert hand.refreshed() == 1
    assert hand.cache.get_many(["a", "b"]) == {"a": "a2", "b": "b2"}
    assert source.batches == [["a", "b", "x"], ["a", "b"]]


def test_a_batch_without_a_batch_loader_keeps_what_was_loaded_before_an_error():
    hand = Hand()

    def fail_at_b(key):
        hand.source.error = Unreachable("the store is away") if key == "b" else None

    hand.source.during = fail_at_b
    with pytest.raises(Unreachable):
        hand.cache.get_many(["a", "b", "c"])
    assert hand.source.asked == ["a", "b"], "a store that is away is not asked for the rest"
    assert hand.cache.get("a") == "a1"
    hand.source.during = lambda _: None
    hand.source.error = None
    assert hand.cache.get_many(["a", "b", "c"]) == {"a": "a1", "b": "b1"}


def test_none_is_a_value_like_any_other():
    hand = Hand()
    hand.source.rows["n"] = None  # type: ignore[assignment] # on purpose
    assert hand.cache.get("n") is None
    assert hand.cache.get_many(["n"]) == {"n": None}
    assert hand.source.asked == ["n"]


def test_who_may_not_wait_gets_what_is_present_and_starts_the_reload_that_is_due():
    hand = Hand()
    assert hand.cache.get_if_present("a", None) is None
    assert hand.source.asked == [], "nothing was loaded for it"
    hand.cache.get("a")
    hand.source.rows["a"] = "a2"
    assert hand.cache.get_if_present("a", None) == "a1"
    assert hand.executor.tasks == [], "it was fresh"
    hand.time.advance(10)
    assert [hand.cache.get_if_present("a", None) for _ in range(3)] == ["a1"] * 3
    assert hand.refreshed() == 1
    assert hand.cache.get_if_present("a", None) == "a2"
    hand.time.advance(100)
    assert hand.cache.get_if_present("a", None) is None, "it has expired"
    assert hand.executor.tasks == []


def test_who_may_not_wait_is_told_of_a_remembered_absence():
    hand = Hand(absent_expire_s=5)
    assert hand.cache.get("nobody") is ABSENT
    assert hand.cache.get_if_present("nobody", None) is ABSENT
    hand.time.advance(5)
    assert hand.cache.get_if_present("nobody", None) is None


def test_an_entry_that_was_loaded_before_is_as_old_as_it_is():
    hand = Hand()
    hand.cache.put("a", "before", age_s=4)
    hand.time.advance(5.9)
    assert hand.cache.get("a") == "before"
    assert hand.executor.tasks == []
    hand.time.advance(0.1)
    assert hand.cache.get("a") == "before"
    assert hand.refreshed() == 1
    hand.cache.put("b", "before", age_s=99)
    hand.time.advance(1)
    assert hand.cache.get("b") == "b1"


def test_what_expired_and_nobody_asks_for_can_be_dropped_but_not_while_it_is_loaded():
    hand = Hand(absent_expire_s=5)
    hand.cache.get_many(["a", "b", "nobody"])
    assert all(key in hand.cache for key in ("a", "b", "nobody"))
    assert hand.cache.drop_expired() == 0
    hand.time.advance(5)
    assert hand.cache.drop_expired() == 1
    assert "nobody" not in hand.cache
    hand.time.advance(20)
    hand.cache.get("a")  # its reload waits for a worker
    hand.time.advance(75)
    assert hand.cache.drop_expired() == 1
    assert ("a" in hand.cache, "b" in hand.cache) == (True, False)
    hand.refreshed()
    assert hand.cache.get("a") == "a1"


def test_that_there_is_no_value_can_be_put():
    hand = Hand(absent_expire_s=5)
    hand.cache.put_absent("a")
    assert hand.cache.get("a") is ABSENT
    hand.time.advance(5)
    assert hand.cache.get("a") == "a1"

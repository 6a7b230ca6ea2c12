"""Policies that cannot be, statistics, closing, and processes that fork."""

import os
import threading

import pytest

from stores.cache import Backoff, CacheStatistics, Policy, open_cache
from stores.errors import ConfigError, Fatal, Retryable, Unreachable
from tests.support.waiting import wait_until
from tests.unit.stores.cache.by_hand import Gate, Hand, Reader, Source, held_load, wait_for_misses


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"max_entries": 0}, "0 entries"),
        ({"max_entries": 1, "refresh_s": 0.0}, "`refresh_s` is 0"),
        ({"max_entries": 1, "expire_s": -1.0}, "`expire_s` is -1"),
        ({"max_entries": 1, "absent_expire_s": 0.0}, "`absent_expire_s` is 0"),
        ({"max_entries": 1, "load_deadline_s": 0.0}, "`load_deadline_s` is 0"),
        ({"max_entries": 1, "refresh_s": 5.0, "expire_s": 5.0}, "before their refresh"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(policy, message):
    with pytest.raises(ConfigError, match=message):
        Policy(**policy)


def test_a_back_off_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="is not possible"):
        Backoff(first_s=5.0, longest_s=1.0)


def test_statistics_count_each_key_once():
    hand = Hand(max_entries=2)
    hand.source.during = lambda _: hand.time.advance(0.5)
    hand.cache.get_many(["a", "b", "a", "b"])  # 2 misses: a key that comes twice is asked once
    hand.cache.get("a")
    hand.cache.get_many(["a", "b", "b"])
    hand.time.advance(10)
    hand.cache.get("a")
    hand.refreshed()
    hand.source.error = Unreachable("the store is away")
    hand.time.advance(10)
    hand.cache.get("b")
    hand.refreshed()
    with pytest.raises(Unreachable):
        hand.cache.get("c")
    hand.cache.put("d", "d1")
    assert hand.cache.statistics() == CacheStatistics(
        hits=6, misses=3, loads=2, load_failures=1, reloads=1, reload_failures=1, evictions=1, load_s=2.5, entries=2
    )


def test_a_snapshot_of_statistics_does_not_change():
    hand = Hand()
    before = hand.cache.statistics()
    hand.cache.get("a")
    assert before == CacheStatistics()


def test_a_closed_cache_says_so_and_closing_twice_is_harmless():
    hand = Hand()
    hand.cache.get("a")
    hand.cache.close()
    hand.cache.close()
    for use in (
        lambda: hand.cache.get("a"),
        lambda: hand.cache.get_many(["a"]),
        lambda: hand.cache.put("a", "x"),
        lambda: hand.cache.invalidate("a"),
        lambda: hand.cache.invalidate_all(),
    ):
        with pytest.raises(Fatal, match="closed"):
            use()
    assert hand.cache.statistics().hits == 0, "statistics outlive it"


def test_closing_drops_reloads_that_wait_for_a_worker():
    hand = Hand()
    hand.cache.get("a")
    hand.time.advance(10)
    hand.cache.get("a")
    hand.cache.close()
    hand.refreshed()
    assert hand.source.asked == ["a"]


def test_closing_waits_for_the_load_that_runs_and_its_reader_gets_it():
    hand = Hand()
    with held_load(hand, lambda: hand.cache.get("a")) as reader:
        late = Reader(lambda: hand.cache.get("a"))
        wait_for_misses(hand, 2)
        closing = Reader(hand.cache.close)
        wait_until(lambda: _is_closed(hand), what="the cache being closed")
        assert closing.is_alive()
    assert reader.result() == late.result() == "a1"
    closing.result()
    assert hand.cache.statistics().entries == 0


def _is_closed(hand: Hand) -> bool:
    try:
        hand.cache.invalidate("other")
    except Fatal:
        return True
    return False


def test_closing_does_not_wait_for_a_stuck_load_beyond_its_deadline():
    hand = Hand()
    with (
        held_load(hand, lambda: hand.cache.get("a")),
        pytest.raises(Retryable, match=r"key 'a' still ran 0\.01 s after"),
    ):
        hand.cache.close(deadline_s=0.01)


def test_an_opened_cache_reloads_behind_the_scenes_and_leaves_no_thread():
    source = Source(a="a1")
    before = set(threading.enumerate())
    with open_cache(source, Policy(max_entries=10, refresh_s=1e-9)) as cache:
        assert cache.get("a") == "a1"
        source.rows["a"] = "a2"
        wait_until(lambda: cache.get("a") == "a2", what="the reload")
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) == before


def test_an_opened_cache_waits_for_its_workers_when_it_closes():
    source = Source(a="a1")
    before = set(threading.enumerate())
    with open_cache(source, Policy(max_entries=10, refresh_s=1e-9)) as cache:
        cache.get("a")
        gate = Gate(source)
        cache.get("a")
        assert gate.entered.wait(30)
        threading.Timer(0, gate.open).start()
    assert not {thread for thread in threading.enumerate() if thread.name.startswith("enrich-reload")} - before


# Later Pythons warn of what this test is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_told_that_the_cache_is_its_parents():
    hand = Hand()
    hand.cache.get("a")
    with held_load(hand, lambda: hand.cache.get("b")):  # a lock or a load of the parent's must not hang the child
        child = os.fork()
        if child == 0:
            os._exit(_tell_apart(hand))
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def _tell_apart(hand: Hand) -> int:
    """In the child: 0 when every use that needs the lock is refused by name."""
    uses = (
        lambda: hand.cache.get("x"),
        lambda: hand.cache.get_many(["b"]),
        lambda: hand.cache.put("a", "x"),
        lambda: hand.cache.invalidate("a"),
    )
    hand.cache.statistics()
    hand.cache.close()
    for use in uses:
        try:
            use()
        except Fatal as error:
            if "forked" not in str(error):
                return 2
        else:
            return 1
    return 0

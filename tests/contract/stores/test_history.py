"""What every engine promises about the past: as of a time, under a pin, below the floor."""

import pyarrow as pa
import pytest

from stores.errors import Retryable
from stores.table import HistoryFloor, Status
from tests.contract.stores.store_under_test import answers, table, version

HOUR = 3_600_000
A, B, C = {"plan": "a"}, {"plan": "b"}, {"plan": "c"}


@pytest.fixture
def users(open_store):
    store = open_store(users=table(history_ms=HOUR))
    store.publish("users", version("k", 0, A, timestamp=1_000), version("k", 1, B, timestamp=2_000))
    store.publish("users", version("k", 2, None, timestamp=3_000), version("k", 3, C, timestamp=4_000))
    return store


def plans(found):
    return [a.status if a.values is None else a.values["plan"] for a in found]


def test_as_of_finds_the_version_valid_at_each_time(users):
    times = [999, 1_000, 1_999, 2_000, 3_500, 4_000, 99_000, None]
    found = users.find("users", *["k"] * len(times), as_of=times)
    assert plans(found) == [Status.MISS, "a", "a", "b", Status.DELETED, "c", "c", Status.NULL_KEY]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_most_distant_times_ask_for_the_newest_version_or_for_none(users, unit):
    times = pa.array([2**63 - 1, -(2**63), 2**63 - 1, -(2**63) + 1], pa.timestamp(unit, tz="UTC"))
    view = users.reader.snapshot().table("users")
    found = answers(view.lookup(pa.array(["k", "k", "nobody", "k"]), ["plan"], as_of=times))
    assert plans(found) == ["c", Status.MISS, Status.MISS, Status.MISS]


def test_versions_with_the_most_distant_times_are_found_again(open_store):
    store = open_store(users=table(history_ms=HOUR))
    store.publish("users", version("k", 0, A, timestamp=-(2**63)), version("k", 1, B, timestamp=1_000))
    store.publish("users", version("k", 2, C, timestamp=2**63 - 1), version("late", 3, A, timestamp=2**63 - 1))
    found = store.find("users", *["k"] * 4, "late", as_of=[-(2**63), 999, 2**63 - 2, 2**63 - 1, 2**63 - 1])
    assert plans(found) == ["a", "a", "b", "c", "a"]
    store.remove_expired()
    assert plans(store.find("users", "k", "late")) == ["c", "a"]


def test_as_of_uses_a_version_that_arrived_late_and_ties_go_to_the_later_offset(users):
    users.publish(
        "users",
        version("k", 4, {"plan": "late"}, timestamp=1_500),
        version("k", 5, {"plan": "tie"}, timestamp=2_000),
    )
    assert plans(users.find("users", "k", "k", "k", as_of=[1_500, 1_999, 2_000])) == ["late", "late", "tie"]


def test_a_pin_shows_the_table_exactly_as_of_its_offsets(users):
    assert [plans(users.find("users", "k", pin={0: offset}))[0] for offset in range(5)] == [
        Status.MISS, "a", "b", Status.DELETED, "c",
    ]  # fmt: skip


def test_a_pin_hides_partitions_that_it_does_not_name(users):
    users.publish("users", version("k", 0, {"plan": "other"}, partition=1, timestamp=9_000))
    assert plans(users.find("users", "k", pin={0: 1})) == ["a"]
    assert plans(users.find("users", "k", pin={0: 1, 1: 1})) == ["other"]


def test_a_pin_and_a_time_hold_together(users):
    assert plans(users.find("users", "k", "k", as_of=[9_000, 1_000], pin={0: 2})) == ["b", "a"]


def test_a_pin_that_the_view_has_not_reached_is_refused_as_retryable(users):
    with pytest.raises(Retryable, match="partition 0 up to offset 5, this view has reached 4"):
        users.find("users", "k", pin={0: 5})


def test_below_the_floor_of_a_bulk_load_every_key_is_expired_never_a_miss(open_store):
    store = open_store(users=table(history_ms=HOUR))
    store.publish("users", version("k", 7, A, timestamp=5_000), floors={0: HistoryFloor(offset=8, timestamp=6_000)})
    assert plans(store.find("users", "k", "x", pin={0: 7})) == [Status.EXPIRED] * 2
    assert plans(store.find("users", "k", "x", pin={0: 8})) == ["a", Status.MISS]
    assert plans(store.find("users", "k", "x", as_of=[5_999] * 2)) == [Status.EXPIRED] * 2
    assert plans(store.find("users", "k", "x", as_of=[6_000] * 2)) == ["a", Status.MISS]
    assert plans(store.find("users", None, as_of=[0])) == [Status.NULL_KEY]


def test_versions_within_the_history_survive_the_removal_of_expired_ones(users):
    users.clock.advance(HOUR // 2)
    users.remove_expired()
    assert plans(users.find("users", "k", "k", as_of=[1_000, 2_000])) == ["a", "b"]
    assert plans(users.find("users", "k", pin={0: 1})) == ["a"]


def test_what_history_no_longer_promises_is_expired_and_the_newest_stays(users):
    users.clock.advance(10 * HOUR)
    users.remove_expired()
    assert plans(users.find("users", "k", "k", as_of=[1_000, 4_000])) == [Status.EXPIRED, "c"]
    assert plans(users.find("users", "k", pin={0: 1})) == [Status.EXPIRED]
    assert plans(users.find("users", "k", pin={0: 4})) == ["c"]
    assert plans(users.find("users", "k")) == ["c"]


def test_a_tombstone_stays_when_the_versions_before_it_are_removed(open_store):
    store = open_store(users=table())
    store.publish("users", version("k", 0, A), version("k", 1, None))
    store.clock.advance(10 * HOUR)
    store.remove_expired()
    assert plans(store.find("users", "k")) == [Status.DELETED]

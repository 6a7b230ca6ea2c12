"""What a freshness bound in front of any engine promises."""

import pyarrow as pa
import pytest

from stores.freshness import CLOCKS_DIFFER_MS, MarkStale
from stores.table import Status
from tests.contract.stores.store_under_test import find, table, version

KEYS = pa.array(["a", "gone", "x", None])
FRESH = [Status.HIT, Status.DELETED, Status.MISS, Status.NULL_KEY]
STALE = [*[Status.STALE] * 3, Status.NULL_KEY]


@pytest.fixture
def store(open_store):
    store = open_store(users=table(history_ms=60_000))
    store.publish(
        "users",
        version("a", 0, {"plan": "free"}),
        version("gone", 1, None),
        complete_through=store.clock.now_ms(),
    )
    return store


def bounded(store):
    return MarkStale(store.reader.snapshot().table("users"), bound_ms=5_000, clock=store.clock)


def statuses(answers):
    return [answer.status for answer in answers]


def test_answers_are_marked_and_rows_still_served_once_the_bound_has_passed(store):
    view = bounded(store)
    store.clock.advance(5_000)
    assert statuses(find(view, KEYS)) == FRESH
    store.clock.advance(1)
    found = find(view, KEYS)
    assert statuses(found) == STALE
    assert [answer.values for answer in found] == [{"plan": "free"}, None, None, None]


def test_a_newer_snapshot_that_is_complete_is_fresh_again(store):
    store.clock.advance(10_000)
    store.publish("users", complete_through=store.clock.now_ms())
    assert statuses(find(bounded(store), KEYS)) == FRESH


def test_a_table_that_was_never_complete_is_stale(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, {"plan": "free"}))
    assert statuses(find(bounded(store), KEYS[:1])) == [Status.STALE]


def test_a_table_that_is_complete_through_a_moment_to_come_is_stale(store):
    """The clock was set back since, so nobody knows how long ago that was."""
    store.clock.advance(-3_600_000)
    assert statuses(find(bounded(store), KEYS)) == STALE


def test_answers_about_the_past_do_not_age(store):
    view = bounded(store)
    times = pa.array([store.clock.now_ms() - CLOCKS_DIFFER_MS] * len(KEYS), pa.timestamp("ms"))
    store.clock.advance(10_000)
    assert statuses(find(view, KEYS, as_of=times)) == FRESH
    assert statuses(find(view, KEYS, pin={0: 2})) == FRESH


def test_answers_about_a_time_that_an_old_table_has_not_reached_are_marked(store):
    view, reached = bounded(store), store.clock.now_ms()
    times = pa.array([reached + 60_000, reached, reached, None], pa.timestamp("ms"))
    store.clock.advance(5_000)
    assert statuses(find(view, KEYS, as_of=times)) == FRESH
    store.clock.advance(1)
    found = find(view, KEYS, as_of=times)
    assert statuses(found) == STALE
    assert found[0].values == {"plan": "free"}

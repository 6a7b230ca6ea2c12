"""What every engine promises about snapshots: whole, unchanging, never going back."""

import pyarrow as pa
import pytest

from stores.errors import Retryable
from stores.table import Status
from tests.contract.stores.store_under_test import find, table, version

FREE, PRO = {"plan": "free"}, {"plan": "pro"}


def test_a_publication_shows_in_all_its_tables_at_once_and_older_snapshots_do_not_change(open_store):
    store = open_store(users=table(), limits=table())
    before = store.open_reader().snapshot()
    store.publish_all({"users": [version("a", 0, FREE)], "limits": [version("a", 0, PRO)]})
    after = store.reader.snapshot()
    key = pa.array(["a"])
    assert [find(before.table(name), key)[0].status for name in ("users", "limits")] == [Status.MISS] * 2
    assert [find(after.table(name), key)[0].status for name in ("users", "limits")] == [Status.HIT] * 2


def test_a_snapshot_refuses_once_its_reader_has_taken_the_next(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE))
    before = store.reader.snapshot()
    view = before.table("users")
    store.reader.snapshot()
    for ask in (lambda: find(view, pa.array(["a"])), lambda: find(before.table("users"), pa.array(["a"]))):
        with pytest.raises(Retryable, match="reader has taken a newer one"):
            ask()


def test_seqs_rise_with_every_publication_for_every_reader(open_store):
    store = open_store(users=table())
    first = store.reader.snapshot().seq
    published = store.publish("users", version("a", 0, FREE)).seq
    assert first < published == store.reader.snapshot().seq == store.open_reader().snapshot().seq
    assert first.store == published.store


def test_a_snapshot_taken_before_old_versions_are_removed_still_answers_from_them(open_store):
    store = open_store(users=table(history_ms=1))
    store.publish("users", version("a", 0, FREE), version("a", 1, PRO))
    before = store.open_reader().snapshot().table("users")
    store.clock.advance(10_000_000)
    store.remove_expired()
    assert find(before, pa.array(["a"]), pin={0: 1})[0].values == FREE


def test_positions_floors_and_complete_through_are_those_of_the_publication(open_store):
    store = open_store(users=table())
    assert store.reader.snapshot().table("users").complete_through is None
    store.publish("users", version("a", 4, FREE, partition=1), complete_through=77)
    store.publish("users", version("a", 0, FREE, partition=0))
    view = store.reader.snapshot().table("users")
    assert (dict(view.positions), dict(view.floors), view.complete_through) == ({0: 1, 1: 5}, {}, 77)

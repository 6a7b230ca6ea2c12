"""What only the cached reader promises: it asks once, stays bounded, forgets what it must, refuses as its reader."""

from contextlib import ExitStack
from types import SimpleNamespace
from unittest.mock import patch

import pyarrow as pa
import pytest

from stores.errors import ConfigError, Retryable
from stores.protocol import KeyKind, TableUpdate
from stores.rocks import CachedReader, RocksReader, RocksStore
from stores.table import row_versions
from tests.contract.stores.store_under_test import find, table, version
from tests.support.clock import ManualClock
from tests.support.directories import fast_directory

SPECS = {"users": table(), "networks": table(key=KeyKind.CIDR)}


@pytest.fixture
def store():
    with fast_directory() as directory, ExitStack() as held:
        writer = RocksStore(directory / "store", SPECS, ManualClock())
        held.callback(writer.close)
        reader = CachedReader(RocksReader(directory / "store", SPECS), most=3)
        held.callback(reader.close)
        offsets = iter(range(1_000))

        def publish(name="users", **plans):
            rows = [
                version(key.replace("_", "."), offset, plan and {"plan": plan})
                for (key, plan), offset in zip(plans.items(), offsets, strict=False)
            ]
            writer.publish({name: TableUpdate(row_versions(rows), {0: rows[-1].offset + 1})})

        yield SimpleNamespace(writer=writer, reader=reader, publish=publish)


def plans(view, *keys):
    return [answer.values and answer.values["plan"] for answer in find(view, pa.array(keys))]


def asked(snapshot, name, *keys):
    """How many keys the view behind the cache is asked for."""
    kept = snapshot.kept_of(name)
    before = kept.misses
    plans(snapshot.table(name), *keys)
    return kept.misses - before


def test_each_key_is_asked_once_for_all_columns_until_it_changes(store):
    store.publish(a="1", b="2")
    snapshot = store.reader.snapshot()
    assert asked(snapshot, "users", "a", "b", "a") == 2
    assert find(snapshot.table("users"), pa.array(["a"]), ["rps", "plan"])[0].values == {"rps": None, "plan": "1"}
    assert asked(snapshot, "users", "a", "b") == 0
    store.publish(b="3")
    snapshot = store.reader.snapshot()
    assert asked(snapshot, "users", "a", "b") == 1
    assert plans(snapshot.table("users"), "a", "b") == ["1", "3"]


def test_that_a_key_is_missing_is_kept_too_and_forgotten_when_it_comes(store):
    snapshot = store.reader.snapshot()
    assert asked(snapshot, "users", "a", None) == 2
    assert asked(snapshot, "users", "a", None) == 0
    store.publish(a="1")
    assert plans(store.reader.snapshot().table("users"), "a", None) == ["1", None]


def test_a_network_changes_what_the_addresses_in_it_find(store):
    store.publish("networks", **{"10_0_0_0/8": "wide"})
    assert plans(store.reader.snapshot().table("networks"), "10.1.2.3") == ["wide"]
    store.publish("networks", **{"10_1_0_0/16": "narrow"})
    assert plans(store.reader.snapshot().table("networks"), "10.1.2.3") == ["narrow"]
    store.publish("networks", **{"10_1_0_0/16": None})
    assert plans(store.reader.snapshot().table("networks"), "10.1.2.3") == ["wide"]


def test_another_table_keeps_what_it_has(store):
    store.publish(a="1")
    asked(store.reader.snapshot(), "users", "a")
    store.publish("networks", **{"10_0_0_0/8": "wide"})
    store.writer.bulk("networks").finish({0: 1})
    assert asked(store.reader.snapshot(), "users", "a") == 0


def test_it_never_keeps_more_than_it_may(store):
    store.publish(**{f"k{number}": str(number) for number in range(20)})
    snapshot = store.reader.snapshot()
    view = snapshot.table("users")
    for number in range(20):
        assert plans(view, f"k{number}") == [str(number)]
        assert len(snapshot.kept_of("users")) <= 3
    assert plans(view, *(f"k{number}" for number in range(20))) == [str(number) for number in range(20)]
    assert len(snapshot.kept_of("users")) <= 3


def test_a_superseded_snapshot_refuses_also_what_is_kept(store):
    store.publish(a="1")
    old = store.reader.snapshot().table("users")
    assert plans(old, "a") == ["1"]
    store.reader.snapshot()
    with pytest.raises(Retryable):
        plans(old, "a")


def test_an_unknown_column_is_refused_also_when_all_keys_are_kept(store):
    view = store.reader.snapshot().table("users")
    plans(view, "a")
    with pytest.raises(ConfigError, match="no column `nope`"):
        find(view, pa.array(["a"]), ["nope"])


def test_an_entry_of_an_earlier_turn_of_the_ring_is_not_believed(store):
    with patch("stores.rocks.changes.ENTRIES", 2):
        store.publish(a="1", b="1")
        store.publish(c="1")
        asked(store.reader.snapshot(), "users", "c")
        with patch("stores.rocks.store.entry", lambda *_: {}):  # by a release that knew no feed
            store.publish(c="2")
        assert plans(store.reader.snapshot().table("users"), "c") == ["2"]

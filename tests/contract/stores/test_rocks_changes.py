"""The change feed of the RocksDB engine: it names every key that changed, or says that it cannot."""

from contextlib import ExitStack

import pytest

from stores.errors import Retryable
from stores.protocol import KeyKind, TableUpdate
from stores.rocks import EVERYTHING, RocksReader, RocksStore
from stores.rocks.changes import ENTRIES
from stores.table import RowVersion, row_versions
from tests.contract.stores.store_under_test import table, version
from tests.support.clock import ManualClock
from tests.support.directories import fast_directory

SPECS = {"users": table(), "events": table(history_ms=1_000), "networks": table(key=KeyKind.CIDR)}
A = {"plan": "a"}


@pytest.fixture
def held():
    with fast_directory() as directory, ExitStack() as held:
        yield directory / "store", held


@pytest.fixture
def writer(held):
    path, stack = held
    store = RocksStore(path, SPECS, ManualClock())
    stack.callback(store.close)
    return store


@pytest.fixture
def reader(held, writer):
    path, stack = held
    reader = RocksReader(path, SPECS)
    stack.callback(reader.close)
    return reader


def update(*versions: RowVersion) -> TableUpdate:
    return TableUpdate(row_versions(versions), {0: versions[-1].offset + 1})


def test_the_keys_of_all_publications_since_a_seq_are_named_and_no_others(writer, reader):
    writer.publish({"users": update(version("before", 0, A))})
    before = reader.snapshot().seq
    writer.publish({"users": update(version("a", 1, A), version("b", 2, None), version("a", 3, A))})
    between = writer.seq
    writer.publish({"users": update(version("c", 4, A)), "events": update(version("e", 0, A))})
    writer.remove_expired()
    snapshot = reader.snapshot()
    assert snapshot.changes_since(before) == {"users": {b"a", b"b", b"c"}, "events": {b"e"}}
    assert snapshot.changes_since(between) == {"users": {b"c"}, "events": {b"e"}}
    assert snapshot.changes_since(snapshot.seq) == {}


def test_quarantined_records_and_a_purge_change_no_key(writer, reader):
    before = reader.snapshot().seq
    published = writer.publish({"users": update(RowVersion(b"bad", 0, 0, 0, b"no json"), version("good", 1, A))})
    writer.purge("users", [record.place for record in published.quarantined])
    assert reader.snapshot().changes_since(before) == {"users": {b"good"}}


def test_a_swap_changes_everything_of_its_table(writer, reader):
    before = reader.snapshot().seq
    writer.publish({"users": update(version("a", 0, A)), "events": update(version("e", 0, A))})
    writer.bulk("users").finish({0: 1})
    writer.publish({"users": update(version("a", 1, A))})
    assert reader.snapshot().changes_since(before) == {"users": EVERYTHING, "events": {b"e"}}


def test_too_large_a_change_is_everything_of_its_table_and_the_next_one_is_small_again(writer, reader):
    before = reader.snapshot().seq
    many = [version(f"key-{offset:06d}", offset, A) for offset in range(5_000)]
    writer.publish({"users": update(*many), "events": update(version("e", 0, A))})
    large = writer.seq
    writer.publish({"users": update(version("a", 5_000, A))})
    assert reader.snapshot().changes_since(before) == {"users": EVERYTHING, "events": {b"e"}}
    assert reader.snapshot().changes_since(large) == {"users": {b"a"}}


def test_keys_of_any_bytes_and_networks_as_they_are_stored_are_named(writer, reader):
    before = reader.snapshot().seq
    writer.publish({"users": update(version(b"", 0, A), version(b"\0\xff", 1, A))})
    writer.publish({"networks": update(version("10.1.2.3/8", 0, A))})
    changes = reader.snapshot().changes_since(before)
    assert changes["users"] == {b"", b"\0\xff"}
    assert [key[0] for key in changes["networks"]] == [96 + 8]


def test_what_the_feed_no_longer_has_is_everything(writer, reader):
    before = reader.snapshot().seq
    for offset in range(ENTRIES):
        writer.publish({"users": update(version(f"{offset}", offset, A))})
    keys = reader.snapshot().changes_since(before)["users"]
    assert len(keys) == ENTRIES
    writer.publish({"users": update(version("one more", ENTRIES, A))})
    assert reader.snapshot().changes_since(before) is EVERYTHING


def test_an_unknown_seq_is_everything(writer, reader):
    seq = reader.snapshot().seq
    for other in (seq._replace(store="another"), seq._replace(generation=1), seq._replace(counter=seq.counter + 1)):
        assert reader.snapshot().changes_since(other) is EVERYTHING
    assert reader.snapshot().changes_since(seq._replace(counter=-5_000)) is EVERYTHING


def test_a_release_that_knew_no_feed_leaves_entries_that_are_not_believed(writer, reader, monkeypatch):
    writer.publish({"users": update(version("a", 0, A))})
    before = reader.snapshot().seq
    with monkeypatch.context() as older:
        older.setattr("stores.rocks.store.entry", lambda *_: {})
        writer.publish({"users": update(version("b", 1, A))})
    writer.publish({"users": update(version("c", 2, A))})
    assert reader.snapshot().changes_since(before) is EVERYTHING


def test_a_superseded_snapshot_refuses(writer, reader):
    snapshot = reader.snapshot()
    reader.snapshot()
    with pytest.raises(Retryable):
        snapshot.changes_since(snapshot.seq)


def test_the_feed_survives_a_restart_of_the_writer(held, writer, reader):
    before = reader.snapshot().seq
    writer.publish({"users": update(version("a", 0, A))})
    writer.close()
    path, stack = held
    again = RocksStore(path, SPECS, ManualClock())
    stack.callback(again.close)
    again.publish({"users": update(version("b", 1, A))})
    assert reader.snapshot().changes_since(before) == {"users": {b"a", b"b"}}

"""The quarantine of the RocksDB engine: kept beside the rows, shown with them, never lost by a swap, bounded."""

from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from stores.errors import ConfigError, CorruptState, Retryable
from stores.protocol import NO_KEY, QuarantineId, TableUpdate
from stores.rocks import RocksReader, RocksStore, Room, Sizes
from stores.rocks.database import Database
from stores.rocks.layout import QUARANTINE, end_of, prefix, table_ids
from stores.rocks.write.setting_aside import OTHER_REASONS
from stores.table import RowVersion, row_versions
from tests.contract.stores.store_under_test import table, version
from tests.support.clock import ManualClock
from tests.support.stores.directories import fast_directory
from tests.support.stores.records import raw_record

SPECS = {"users": table(), "others": table()}
A = {"plan": "a"}
WRONG = "plan: expected text, got a whole number"


class Store:
    def __init__(self, directory, held: ExitStack) -> None:
        self.path = directory / "store"
        self.clock = ManualClock()
        self._held = held

    def open(self, room: Room | None = None) -> RocksStore:
        store = RocksStore(self.path, SPECS, self.clock, room=room)
        self._held.callback(store.close)
        return store

    def view(self, name="users"):
        reader = RocksReader(self.path, SPECS)
        self._held.callback(reader.close)
        reader.verify()
        return reader.snapshot().table(name)

    def offsets(self, name="users"):
        return [(record.partition, record.offset) for record in self.view(name).quarantined()]


@pytest.fixture
def store():
    with fast_directory() as directory, ExitStack() as held:
        yield Store(directory, held)


def bad(
    offset: int, value: bytes | None = b"no json", *, key: bytes | None = b"k", partition: int = 0, time: int = 5
) -> RowVersion:
    return raw_record(key, partition, offset, time, value)


def wrong(offset: int) -> RowVersion:
    return bad(offset, b'{"plan": 5}')


def update(*versions: RowVersion) -> TableUpdate:
    ends: dict[int, int] = {}
    for one in versions:
        ends[one.partition] = max(ends.get(one.partition, 0), one.offset + 1)
    return TableUpdate(row_versions(versions), ends)


def load(writer: RocksStore, *versions: RowVersion, end: int = 100, name: str = "users"):
    bulk = writer.bulk(name)
    for one in versions:
        bulk.add(row_versions([one]))
    return bulk.finish({0: end, 1: end})


def test_what_was_quarantined_is_read_back_whole_by_place_after_a_restart(store):
    with closing(store.open()) as writer:
        records = [bad(300), bad(2, b"\xff\0", key=b"", partition=1), wrong(5), bad(7, None, key=None, time=-1)]
        published = writer.publish({"users": update(*records), "others": update(bad(1))})
    view = store.view()
    expected = sorted(
        (r for r in published.quarantined if r.table == "users"), key=lambda record: (record.partition, record.offset)
    )
    assert list(view.quarantined()) == expected
    assert [record.offset for record in expected] == [5, 7, 300, 2]
    assert (expected[1].key, expected[1].value, expected[1].timestamp, expected[1].reason) == (None, None, -1, NO_KEY)
    assert view.quarantine.records == 4
    assert view.quarantine.kept[WRONG] == view.quarantine.kept[NO_KEY] == 1
    with closing(store.open()) as writer:
        assert writer.tables["users"].quarantine == view.quarantine


def test_a_snapshot_that_was_superseded_refuses_and_one_that_stands_shows_nothing_newer(store):
    writer = store.open()
    writer.publish({"users": update(bad(0))})
    with closing(RocksReader(store.path, SPECS)) as reader:
        old = reader.snapshot().table("users")
        writer.publish({"users": update(bad(1))})
        assert [record.offset for record in old.quarantined()] == [0]
        assert reader.snapshot().table("users").quarantine.records == 2
        with pytest.raises(Retryable):
            old.quarantined()


def test_a_bulk_load_shows_its_quarantine_with_its_rows(store):
    writer = store.open()
    bulk = writer.bulk("users")
    bulk.add(row_versions([version("a", 0, A), bad(1), bad(2, b"{}", key=None)]))
    assert store.offsets() == []
    bulk.finish({0: 3})
    assert store.offsets() == [(0, 1), (0, 2)]


def test_a_snapshot_gets_what_the_topic_of_the_rows_had_and_not_what_one_before_it_has_left(store):
    writer = store.open()
    writer.publish({"users": update(bad(0), bad(1), bad(9))})
    store.clock.advance(1_000)
    # Another topic: what it has at the same places has other times.
    load(writer, version("a", 0, A), bad(1, time=7), end=5)
    writer.publish({"users": update(bad(6, time=8))})
    view = store.view()
    assert store.offsets() == [(0, 0), (0, 1), (0, 1), (0, 6), (0, 9)]
    batches = [batch.to_pylist() for batch in view.whole().quarantined()]
    assert [(row["offset"], row["timestamp"]) for batch in batches for row in batch] == [(1, 7), (6, 8)]


def test_an_abandoned_load_leaves_the_quarantine_as_it_was(store):
    writer = store.open()
    writer.publish({"users": update(bad(0))})
    bulk = writer.bulk("users")
    bulk.add(row_versions([bad(0), bad(1)]))
    bulk.abandon()
    assert store.offsets() == [(0, 0)]


def test_a_rebuild_keeps_what_the_topic_has_no_more_and_has_nothing_twice(store):
    writer = store.open()
    writer.publish({"users": update(bad(0), bad(1), bad(2)), "others": update(bad(9))})
    arrived = {record.offset: record.arrived for record in store.view().quarantined()}
    store.clock.advance(1_000)
    load(writer, bad(1), bad(7), version("a", 8, A))
    assert store.offsets() == [(0, 0), (0, 1), (0, 2), (0, 7)]
    assert store.view().quarantine.records == 4
    again = {record.offset: record.arrived for record in store.view().quarantined()}
    assert [again[offset] - arrived[offset] for offset in (0, 1, 2)] == [0, 1_000, 0]
    for _ in range(3):
        load(writer, bad(7))
    assert store.offsets() == [(0, 0), (0, 1), (0, 2), (0, 7)]
    assert store.offsets("others") == [(0, 9)]


def test_a_record_that_a_rebuild_can_decode_leaves_the_quarantine(store):
    writer = store.open()
    writer.publish({"users": update(bad(0), bad(1))})
    load(writer, RowVersion(b"k", 0, 0, 5, b'{"plan": "now it can be read"}'))
    assert store.offsets() == [(0, 1)]


def test_a_record_at_the_same_place_of_a_topic_recreated_is_another_record(store):
    writer = store.open()
    writer.publish({"users": update(bad(0, b"old"))})
    load(writer, bad(0, b"new", time=99))
    assert [record.value for record in store.view().quarantined()] == [b"old", b"new"]


def test_what_is_quarantined_while_a_load_runs_is_kept_and_not_counted_twice_when_it_comes_again(store):
    writer = store.open()
    bulk = writer.bulk("users")
    bulk.add(row_versions([bad(0)]))
    writer.publish({"users": update(bad(0), bad(1), bad(2))})
    bulk.finish({0: 1})
    assert store.offsets() == [(0, 0), (0, 1), (0, 2)]
    assert len(writer.publish({"users": update(bad(1), bad(2), bad(3))}).quarantined) == 3
    assert store.offsets() == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert store.view().quarantine.records == 4


def test_what_is_purged_is_gone_and_everything_else_stays(store):
    writer = store.open()
    writer.publish({"users": update(bad(0), wrong(1), bad(2)), "others": update(bad(0))})
    records = list(store.view().quarantined())
    writer.purge("users", [records[0].id, records[1].id, QuarantineId(0, 77, 5)])
    assert store.offsets() == [(0, 2)]
    assert store.offsets("others") == [(0, 0)]
    assert dict(store.view().quarantine.kept) == {records[2].reason: 1}
    with pytest.raises(ConfigError, match="no table `nope`"):
        writer.purge("nope", [])


def test_a_full_quarantine_keeps_what_came_first_and_counts_all_by_reason(store):
    writer = store.open(Room(records=3))
    for start in range(0, 20, 5):
        writer.publish({"users": update(*(bad(start + i) if i else wrong(start) for i in range(5)))})
    assert store.offsets() == [(0, 0), (0, 1), (0, 2)]
    quarantine = store.view().quarantine
    assert (quarantine.records, quarantine.kept_records) == (20, 3)
    assert (quarantine.kept[WRONG], quarantine.not_kept[WRONG]) == (1, 3)
    writer.purge("users", [record.id for record in store.view().quarantined()])
    assert (store.view().quarantine.records, store.offsets()) == (17, [])
    writer.publish({"users": update(bad(50))})
    assert store.offsets() == [(0, 50)]


def test_a_full_quarantine_is_counted_anew_by_a_rebuild_and_what_only_it_has_comes_first(store):
    writer = store.open(Room(records=3))
    writer.publish({"users": update(*(bad(offset) for offset in range(6)))})
    load(writer, *(bad(offset) for offset in range(1, 6)))
    assert store.offsets() == [(0, 0), (0, 1), (0, 2)]
    assert (store.view().quarantine.records, store.view().quarantine.kept_records) == (6, 3)


def test_the_room_is_one_of_bytes_too(store):
    writer = store.open(Room(size=10_000))
    writer.publish({"users": update(bad(0, b"x" * 6_000), bad(1, b"x" * 6_000), bad(2, b"small"))})
    assert store.offsets() == [(0, 0), (0, 2)]
    assert store.view().quarantine.records == 3


def test_a_release_with_less_room_purges_rightly(store):
    with closing(store.open()) as writer:
        writer.publish({"users": update(*(bad(offset) for offset in range(6)))})
    with closing(store.open(Room(records=2))) as writer:
        writer.purge("users", [QuarantineId(0, 0, 5)])
        assert len(store.offsets()) == 5
        load(writer)
        assert store.offsets() == [(0, 1), (0, 2)]
        assert store.view().quarantine.records == 5


def test_reasons_without_number_are_counted_together(store, monkeypatch):
    monkeypatch.setattr("stores.rocks.write.setting_aside._REASONS", 2)
    writer = store.open()
    writer.publish({"users": update(wrong(0), bad(1), bad(2, b"{}", key=None), bad(3, b'{"rps": "x"}'))})
    quarantine = store.view().quarantine
    assert quarantine.records == 4
    assert quarantine.kept[OTHER_REASONS] == 2
    assert len({record.reason for record in store.view().quarantined()}) == 4


def test_a_swap_leaves_no_record_behind_under_the_old_number(store):
    with closing(store.open()) as writer:
        writer.publish({"users": update(bad(0))})
        load(writer, bad(1))
        number = writer.tables["users"].table_id
    with closing(Database.primary(store.path / "db", Sizes())) as database:
        assert {int.from_bytes(key[1:3], "big") for key, _ in database.scan(QUARANTINE, end_of(QUARANTINE))} == {number}
        assert table_ids(database.scan) == {number}


@pytest.mark.parametrize("damage", ["lost", "changed", "added"])
def test_verify_tells_damage_to_the_quarantine(store, damage):
    with closing(store.open()) as writer:
        writer.publish({"users": update(bad(0), bad(1))})
        begin = prefix(QUARANTINE, writer.tables["users"].table_id)
    with closing(Database.primary(store.path / "db", Sizes())) as database:
        key, row = next(database.scan(begin, begin + b"\xff"))
        rows = {"lost": {}, "changed": {key: row.replace(b"no json", b"no jsom")}, "added": {key + b"\0": row}}
        database.write(rows[damage], [key] if damage == "lost" else [])
        database.flush()
    with pytest.raises(CorruptState, match="quarantine of table `users` holds"):
        store.view()


def test_a_quarantine_of_ten_thousand_records_a_publication_stays_bounded(store):
    writer = store.open(Room(records=100))
    for start in range(0, 30_000, 10_000):
        batch = row_versions([bad(offset) for offset in range(start, start + 10_000)])
        writer.publish({"users": TableUpdate(batch, {0: start + 10_000})})
    bulk = writer.bulk("others")
    assert len(bulk.add(replace(update(), versions=batch).versions)) == 10_000
    bulk.finish({0: 30_000})
    for name, records in (("users", 30_000), ("others", 10_000)):
        quarantine = store.view(name).quarantine
        assert (quarantine.records, quarantine.kept_records) == (records, 100)
        assert len(list(store.view(name).quarantined())) == 100

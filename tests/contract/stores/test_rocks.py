"""What only the RocksDB engine promises: bulk loads, formats, its files, and rows as they came."""

import subprocess
import sys
import threading
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest

from stores.errors import ConfigError, CorruptState, Fatal, Fenced, Retryable
from stores.protocol import KeyKind, TableUpdate
from stores.rocks import RocksReader, RocksStore, Sizes
from stores.rocks import store as store_module
from stores.rocks.database import Database
from stores.rocks.layout import table_ids
from stores.rocks.state import STORE_ROW
from stores.table import RowVersion, Status, row_versions
from tests.contract.stores.store_under_test import find, table, version
from tests.support.clock import ManualClock
from tests.support.stores.directories import fast_directory

A, B, C = {"plan": "a"}, {"plan": "b"}, {"plan": "c"}
SPECS = {"users": table(), "events": table(history_ms=1_000), "networks": table(key=KeyKind.CIDR)}


class Store:
    def __init__(self, directory, held: ExitStack) -> None:
        self.path = directory / "store"
        self.clock = ManualClock()
        self._held = held

    def open(self) -> RocksStore:
        store = RocksStore(self.path, SPECS, self.clock)
        self._held.callback(store.close)
        return store

    def reader(self) -> RocksReader:
        reader = RocksReader(self.path, SPECS)
        self._held.callback(reader.close)
        return reader

    def view(self, name):
        return self.reader().snapshot().table(name)

    def plans(self, name, *keys):
        found = find(self.view(name), pa.array(keys))
        return [a.status if a.values is None else a.values["plan"] for a in found]

    def database(self) -> Database:
        database = Database.primary(self.path / "db", Sizes())
        self._held.callback(database.close)
        return database


@pytest.fixture
def store():
    with fast_directory() as directory, ExitStack() as held:
        yield Store(directory, held)


def update(*versions: RowVersion) -> TableUpdate:
    return TableUpdate(row_versions(versions), {v.partition: v.offset + 1 for v in versions})


def test_a_bulk_load_replaces_the_table_at_once_while_others_go_on(store):
    writer = store.open()
    writer.publish({"users": update(version("old", 0, A)), "events": update(version("e", 0, A))})
    bulk = writer.bulk("users")
    assert bulk.add(row_versions([version("new", 5, B), version("new", 6, C), version("gone", 7, None)])) == ()
    writer.publish({"events": update(version("e", 1, B))})
    assert store.plans("users", "old", "new") == ["a", Status.MISS]
    published = bulk.finish({0: 9}, complete_through=77)
    assert store.plans("users", "old", "new", "gone") == [Status.MISS, "c", Status.DELETED]
    assert store.plans("events", "e") == ["b"]
    view = store.view("users")
    assert (dict(view.positions), view.complete_through) == ({0: 9}, 77)
    assert store.reader().snapshot().seq == published.seq == writer.seq


def test_publications_from_another_thread_go_on_during_a_bulk_load(store):
    writer = store.open()
    stop = threading.Event()
    published: list[int] = []

    def publish() -> None:
        while not stop.is_set():
            offset = len(published)
            writer.publish({"events": update(version("e", offset, {"rps": offset}))})
            published.append(offset)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for load in range(5):
            bulk = writer.bulk("users", budget=20_000)
            for start in range(0, 2_000, 100):
                bulk.add(row_versions(version(f"k{start + i}", start + i, {"rps": load}) for i in range(100)))
            bulk.finish({0: 2_000})
    finally:
        stop.set()
        thread.join()
    assert len(published) > 5
    verified = store.reader().verify()
    assert verified["users"].rows == 2_000
    found = find(store.view("events"), pa.array(["e"]), ["rps"])
    assert found[0].values == {"rps": published[-1]}


def test_a_bulk_load_sets_undecodable_records_aside(store):
    writer = store.open()
    bulk = writer.bulk("users")
    (bad,) = bulk.add(row_versions([version("a", 0, A), RowVersion(b"a", 0, 1, 0, b"no json")]))
    assert (bad.table, bad.offset, bad.value) == ("users", 1, b"no json")
    bulk.finish({0: 2})
    assert store.plans("users", "a") == ["a"]


def test_what_an_interrupted_bulk_load_left_is_removed_by_the_next_writer(store):
    with closing(store.open()) as writer:
        writer.bulk("users")  # its directory stays
        writer.write_unseen({b"L\0\x63key": b"row", b"H\0\x62key": b"row"})
        assert {0x62, 0x63} <= table_ids(writer._database.scan)
    with closing(store.open()) as writer:
        assert not {0x62, 0x63} & table_ids(writer._database.scan)
        assert not list(store.path.glob("bulk/*"))


def test_an_abandoned_bulk_load_leaves_the_table_as_it_was(store):
    writer = store.open()
    writer.publish({"users": update(version("a", 0, A))})
    bulk = writer.bulk("users")
    bulk.add(row_versions([version("b", 0, B)]))
    bulk.abandon()
    assert store.plans("users", "a", "b") == ["a", Status.MISS]
    assert not list(store.path.glob("bulk/*"))


def test_a_bulk_load_in_which_something_fails_is_abandoned(store):
    writer = store.open()
    with pytest.raises(KeyboardInterrupt), writer.bulk("users") as bulk:
        bulk.add(row_versions([version("b", 0, B)]))
        raise KeyboardInterrupt
    assert store.plans("users", "b") == [Status.MISS]
    assert not list(store.path.glob("bulk/*"))


@pytest.mark.parametrize(("found", "error"), [(1, CorruptState), (3, ConfigError)])
def test_an_older_format_is_rebuilt_and_a_newer_one_refused(store, found, error):
    store.open().close()
    with closing(store.database()) as database:
        (row,) = database.get_many([STORE_ROW])
        database.write({STORE_ROW: row.replace(b'"format": 2', b'"format": %d' % found)})
        database.flush()
    for open_it in (store.open, store.reader):
        with pytest.raises(error, match=f"format {found}"):
            open_it()


def test_a_store_whose_writer_kept_a_change_feed_goes_on_without_those_rows(store):
    with closing(store.open()) as writer:
        writer.publish({"users": update(version("k", 0, A))})
        seq = writer.seq
    with closing(store.database()) as database:
        database.write({b"C" + bytes([0, number]): b"which keys changed" for number in range(3)})
        database.flush()
    for _ in range(2):  # the second time there is nothing to remove
        with closing(store.open()) as writer:
            assert writer.seq == seq
            assert store.plans("users", "k") == ["a"]
    with closing(store.database()) as database:
        assert list(database.scan(b"C", b"D")) == []


def test_a_reopened_store_goes_on_from_its_seq(store):
    with closing(store.open()) as writer:
        before = writer.publish({"users": update(version("a", 0, A))}).seq
    with closing(store.open()) as writer:
        assert writer.seq == before
        assert before < writer.publish({"users": update(version("a", 1, B))}).seq
    assert store.plans("users", "a") == ["b"]


def test_a_second_writer_is_fenced(store):
    store.open()
    with pytest.raises(Fenced):
        store.open()
    program = (
        "import sys, pathlib\nfrom stores.rocks.database import Database, Sizes\n"
        "Database.primary(pathlib.Path(sys.argv[1]), Sizes())"
    )
    other = [sys.executable, "-c", program, str(store.path / "db")]
    done = subprocess.run(other, capture_output=True, text=True, check=False)
    assert "Fenced: another writer holds the store" in done.stderr


def test_a_store_deleted_under_its_writer_is_not_recreated(store):
    writer = store.open()
    reader = store.reader()
    for file in sorted(store.path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    store.path.rmdir()
    for _ in range(2):
        with pytest.raises(CorruptState):
            writer.publish({"users": update(version("a", 0, A))})
        with pytest.raises(Retryable, match="deleted"):
            reader.snapshot()
    assert not (store.path / "db").exists()
    writer.close()
    store.open()
    with pytest.raises(Retryable, match="replaced"):
        reader.snapshot()


def test_without_a_store_a_reader_may_try_again(store):
    with pytest.raises(Retryable, match="no store yet"):
        store.reader()


def test_a_reader_takes_its_own_files_away(store):
    store.open()
    reader = store.reader()
    assert len(list(store.path.glob("readers/*"))) == 1
    reader.close()
    assert not list(store.path.glob("readers/*"))


def test_the_files_of_readers_that_were_killed_are_taken_away_by_the_next_one_and_those_of_living_ones_are_not(store):
    store.open()
    living = store.reader()
    (kept,) = store.path.glob("readers/*")
    open_and_end = (
        "import os, sys; from pathlib import Path; from stores.rocks import RocksReader;"
        "reader = RocksReader(Path(sys.argv[1]), {}); os._exit(0)"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", open_and_end, str(store.path)], check=True)
    assert len(list(store.path.glob("readers/*"))) == 2
    store.reader().close()
    assert list(store.path.glob("readers/*")) == [kept]
    living.close()


def test_a_reader_refuses_in_a_forked_process(store):
    store.open()
    reader = store.reader()
    view = reader.snapshot().table("users")
    reader._process += 1
    for ask in (reader.snapshot, lambda: find(view, pa.array(["a"]))):
        with pytest.raises(Fatal, match="forked"):
            ask()


def test_the_removal_of_expired_versions_does_a_bounded_piece_of_work(store, monkeypatch):
    monkeypatch.setattr(store_module, "_EXPIRED_IN_ONE_PASS", 3)
    writer = store.open()
    writer.publish({"events": update(*(version("e", offset, A) for offset in range(9)))})
    store.clock.advance(100_000)
    kept = []
    for _ in range(4):
        writer.remove_expired()
        kept.append(len(store.view("events").versions(b"e")))
    assert kept == [6, 3, 1, 1]
    assert store.view("events").floors[0].offset == 9


def test_a_table_with_much_to_remove_leaves_the_next_pass_to_the_others(store):
    both = dict.fromkeys(("one", "other"), table(history_ms=1_000))
    with closing(RocksStore(store.path / "both", both, store.clock)) as writer:
        for name in both:
            writer.publish({name: update(*(version("k", offset, A) for offset in range(9)))})
        store.clock.advance(100_000)
        removed, floors = [], []
        for _ in range(5):
            removed.append(writer.remove_expired(4).removed)
            floors.append({name: writer.tables[name].floors[0].offset for name in both if writer.tables[name].floors})
    assert removed == [4, 4, 4, 4, 0]
    assert floors[:2] == [{"one": 5}, {"one": 5, "other": 5}]
    assert floors[-1] == {"one": 9, "other": 9}


@pytest.mark.parametrize("batches", [[4], [1, 1, 1, 1], [2, 2]])
def test_a_version_that_came_before_ones_with_earlier_times_goes_once_a_later_time_hides_it(store, batches):
    writer = store.open()
    times = [5_000, 1_000, 2_000, 6_000]
    versions = [version("e", offset, A, timestamp=time) for offset, time in enumerate(times)]
    for size in batches:
        writer.publish({"events": update(*versions[:size])})
        versions = versions[size:]
    assert [v.offset for v in store.view("events").versions(b"e")] == [1, 2, 0, 3]
    assert find(store.view("events"), pa.array(["e"]), as_of=pa.array([5_999], pa.timestamp("ms")))[0].position == (
        0,
        0,
    )
    store.clock.advance(100_000)
    writer.remove_expired()
    assert [v.offset for v in store.view("events").versions(b"e")] == [3]


def test_without_history_what_is_superseded_goes_at_once_and_its_past_is_expired(store):
    writer = store.open()
    writer.publish({"users": update(version("a", 0, A), version("a", 1, B))})
    assert [v.offset for v in store.view("users").versions(b"a")] == [1]
    assert find(store.view("users"), pa.array(["a"]), pin={0: 1})[0].status is Status.EXPIRED
    assert find(store.view("users"), pa.array(["a"]), pin={0: 2})[0].values == B


def test_rows_can_be_scanned_by_prefix_and_versions_of_a_key_listed(store):
    writer = store.open()
    versions = [version("aa", 0, A), version("ab", 1, B), version("ab", 2, None), version("b", 3, C)]
    writer.publish({"events": update(*versions)})
    view = store.view("events")
    assert list(view.scan(b"a")) == [versions[0], versions[2]]
    assert list(view.scan()) == [versions[0], versions[2], versions[3]]
    assert view.versions(b"ab") == versions[1:3]
    assert view.versions(b"x") == []


def test_networks_are_scanned_as_text(store):
    writer = store.open()
    writer.publish({"networks": update(version("10.1.2.3/8", 0, A), version("::1", 1, B), version("1.2.3.4", 2, C))})
    view = store.view("networks")
    assert {v.key for v in view.scan()} == {b"10.0.0.0/8", b"::1/128", b"1.2.3.4/32"}
    assert [v.offset for v in view.scan(b"10.")] == [0]
    assert [v.offset for v in view.versions(b"10.0.0.0/8")] == [0]
    with pytest.raises(ConfigError, match="is no network"):
        view.versions(b"x")


def test_a_key_in_two_partitions_is_counted_whether_published_or_loaded(store):
    versions = [version("a", 0, A), version("a", 0, B, partition=1), version("b", 1, C)]
    writer = store.open()
    writer.publish({"users": update(*versions)})
    published = writer.tables["users"]
    bulk = writer.bulk("users")
    bulk.add(row_versions(versions))
    bulk.finish(published.positions)
    loaded = writer.tables["users"]
    assert (published.rows, published.split_keys) == (loaded.rows, loaded.split_keys) == (2, 1)
    assert published.digest == loaded.digest
    store.reader().verify()


def test_nothing_is_ever_written_to_the_write_ahead_log(store):
    writer = store.open()
    writer.publish({"users": update(version("a", 0, A))})
    writer._database.write({b"L\0\1x": b"not flushed" * 1_000}, [b"y"], [(b"y", b"z")])
    logs = list((store.path / "db").glob("*.log"))
    assert logs
    assert [log.stat().st_size for log in logs] == [0] * len(logs)


def test_verify_tells_a_table_that_does_not_hold_what_was_published(store):
    with closing(store.open()) as writer:
        writer.publish({"users": update(version("a", 0, A), version("b", 1, B))})
    with closing(store.database()) as database:
        database.write({}, [b"L\0\1b"])
        database.flush()
    with pytest.raises(CorruptState, match="it should hold 2 with"):
        store.reader().verify()


def test_notes_are_kept_with_the_positions_until_others_are_given(store):
    with closing(store.open()) as writer:
        versions = row_versions([version("a", 0, A)])
        writer.publish({"users": TableUpdate(versions, {0: 1}, notes={"topic_id": "x"})})
        writer.publish({"users": update(version("a", 1, B))})
    with closing(store.open()) as writer:
        assert writer.tables["users"].notes == {"topic_id": "x"}
        writer.bulk("users").finish({0: 2}, notes={"topic_id": "y"})
        assert writer.tables["users"].notes == {"topic_id": "y"}


def taken_in(store, loaded, versions):
    """How many versions of a table without history are kept, once they came in by a load or one after the other."""
    writer = store.open()
    if loaded:
        load = writer.bulk("users")
        load.add(row_versions(versions))
        load.finish({0: len(versions)})
    else:
        for one in versions:
            writer.publish({"users": update(one)})
    store.clock.advance(10)
    writer.remove_expired()
    return sum(len(batch) for batch in store.view("users").whole().as_stored())


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("ahead", [60_000, 1_800_000_000_000_000])
def test_without_history_one_version_of_a_key_is_kept_also_where_producers_clocks_are_ahead(store, loaded, ahead):
    now = store.clock.now_ms()
    versions = [version("k", number, A, timestamp=now + ahead + number) for number in range(20)]
    assert taken_in(store, loaded, versions) == 1
    assert store.plans("users", "k") == ["a"]


@pytest.mark.parametrize("loaded", [True, False])
def test_without_history_a_time_far_ahead_goes_once_another_one_hides_it(store, loaded):
    now = store.clock.now_ms()
    times = [now, now * 1_000, now + 1, now + 2, now * 1_000 + 1]
    versions = [version("k", number, A, timestamp=time) for number, time in enumerate(times)]
    assert taken_in(store, loaded, versions) == 1

"""What segments promise beside the protocol: restarts, builds beside publications, files that come and go."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from enrich.host.reader.segments import SegmentsHold
from stores.errors import CorruptState, Fatal, Retryable
from stores.protocol import KeyKind
from stores.segments import Base, Change, Known, SegmentsReader, SegmentsWriter, Tiers, Written
from stores.table import ROW_VERSIONS, HistoryFloor, Seq, Status, row_versions
from tests.contract.stores.store_under_test import find, table, version
from tests.support.clock import ManualClock
from tests.support.descriptors import no_more_files, open_below
from tests.support.stores.directories import fast_directory

A, B, C = {"plan": "a"}, {"plan": "b"}, {"plan": "c"}
SPECS = {"users": table(history_ms=1_000), "events": table(), "networks": table(key=KeyKind.CIDR)}
MERGE_ALWAYS = Tiers(base_share=0, base_at_least=0)


class Store:
    def __init__(self, path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.counter = 0

    def writer(self, tiers=None, **known: Known) -> SegmentsWriter:
        seq = Seq("a store", 0, self.counter)
        return SegmentsWriter(self.path, SPECS, seq, known, self.clock, tiers=tiers)

    def next_seq(self) -> Seq:
        self.counter += 1
        return Seq("a store", 0, self.counter)

    def publish(self, writer, name, *versions, floors=None) -> Known:
        batch = row_versions(versions)
        rows = SPECS[name].decoder.decode(batch.column("value")).rows
        known = Known({v.partition: v.offset + 1 for v in versions}, floors or {})
        writer.publish(self.next_seq(), {name: Change(known.positions, known.floors, None, batch, rows)})
        return known

    def base(self, build, *versions) -> Written:
        return self.base_of(build, row_versions(versions))

    def base_of(self, build, versions) -> Written:
        with closing(Base(build.files, SPECS[build.name])) as base:
            base.add(versions)
            return base.finish({})

    def plans(self, name, *keys, reader=None, **options):
        reader = reader or SegmentsReader(self.path, SPECS)
        found = find(reader.snapshot().table(name), pa.array(keys), **options)
        return [a.status if a.values is None else a.values["plan"] for a in found]

    def files(self):
        return {path.name for path in self.path.glob("*.segment")}


@pytest.fixture
def store():
    with fast_directory() as directory:
        yield Store(directory / "segments")


def test_a_new_writer_takes_over_what_fits_and_says_what_must_be_built(store):
    writer = store.writer()
    users = store.publish(writer, "users", version("a", 0, A))
    store.publish(writer, "events", version("e", 0, A))
    writer = store.writer(users=users, events=Known({0: 7}))
    assert dict(writer.to_build) == {"events": "its segments are older than its rows"}
    assert store.plans("users", "a") == ["a"]
    with pytest.raises(Retryable, match="`events` has no segments now: its segments are older"):
        store.plans("events", "e")
    build = writer.build("events")
    writer.take(build, store.base(build, version("e", 6, B)))
    assert not writer.to_build
    assert store.plans("events", "e") == ["b"]


def test_segments_of_another_load_and_those_of_an_earlier_release_are_built_anew(store, monkeypatch):
    known = replace(store.publish(store.writer(), "users", version("a", 0, A)), load=7)
    assert dict(store.writer(users=known).to_build) == {"users": "its segments have the rows from before a load"}
    known = store.publish(store.writer(), "users", version("a", 0, A))
    monkeypatch.setattr("stores.segments.manifest._FORMAT", 99)
    assert set(store.writer(users=known).to_build) == {"users"}


def test_segments_of_another_store_other_columns_or_another_hash_are_built_anew(store, monkeypatch):
    known = store.publish(store.writer(), "users", version("a", 0, A))
    other = SegmentsWriter(store.path, SPECS, Seq("another store", 0, 9), {"users": known}, store.clock)
    assert set(other.to_build) == {"users"}
    known = store.publish(store.writer(), "users", version("a", 0, A))
    monkeypatch.setattr("stores.segments.segment.hash_identity", lambda: "another")
    assert "another release" in store.writer(users=known).to_build["users"]


def test_publications_go_on_beside_a_build_and_stand_above_it(store):
    writer = store.writer(MERGE_ALWAYS)
    store.publish(writer, "users", version("old", 0, A), version("k", 1, A))
    build = writer.build("users")
    base = store.base(build, version("k", 1, B))
    store.publish(writer, "users", version("k", 2, C), version("new", 3, C))
    assert not writer.merge()
    assert store.plans("users", "old", "k", "new") == ["a", "c", "c"]
    writer.take(build, base)
    assert store.plans("users", "old", "k", "new") == [Status.MISS, "c", "c"]
    assert store.plans("users", "k", pin={0: 2}) == ["b"]


def test_what_waited_for_a_build_that_is_given_up_is_merged_at_once(store):
    writer = store.writer(MERGE_ALWAYS)
    store.publish(writer, "users", version("a", 0, A))
    store.publish(writer, "users", version("b", 1, A))
    build = writer.build("users")
    assert not writer.merge()
    writer.abandon(build)
    assert writer.merge()


def test_a_build_is_not_taken_if_something_that_came_meanwhile_could_not_be_written(store, monkeypatch):
    """The table would answer without it."""
    writer = store.writer()
    store.publish(writer, "users", version("a", 0, A))
    build = writer.build("users")
    base = store.base(build, version("a", 0, A))
    with monkeypatch.context() as broken:
        broken.setattr(writer, "_add", fails_with(ValueError("no segment can hold this")))
        store.publish(writer, "users", version("a", 1, B))
    assert [*writer.failures()] == ["users"]
    with pytest.raises(Fatal, match="was abandoned"):
        writer.take(build, base)
    assert "users" in writer.to_build


def test_what_is_published_to_a_table_that_is_being_built_knows_of_other_partitions_in_the_end(store):
    store.publish(store.writer(), "users", version("k", 0, A, timestamp=9_000))
    writer = store.writer(users=Known({0: 5}))
    build = writer.build("users")
    base = store.base(build, version("k", 4, B, timestamp=9_000))
    store.publish(writer, "users", version("k", 0, C, partition=1, timestamp=1_000))
    writer.take(build, base)
    assert store.plans("users", "k") == ["b"]


def test_a_build_of_rows_that_no_longer_exist_is_not_taken(store):
    """The table was loaded anew meanwhile."""
    writer = store.writer()
    store.publish(writer, "users", version("a", 0, A))
    build = writer.build("users")
    base = store.base(build, version("a", 0, A))
    writer.publish(store.next_seq(), {"users": Change({0: 1}, load=2, lost="it was loaded anew")})
    with pytest.raises(Fatal, match="was abandoned"):
        writer.take(build, base)
    assert writer.to_build["users"] == "it was loaded anew"


@pytest.mark.parametrize("begun", ["lost", "while others answer"])
def test_a_key_that_comes_in_two_partitions_while_its_table_is_built_is_answered_by_its_newest_version(store, begun):
    writer = store.writer(users=Known({0: 5, 1: 5})) if begun == "lost" else store.writer()
    build = writer.build("users")
    base = store.base(build, version("other", 4, A))
    store.publish(writer, "users", version("k", 5, B, timestamp=9_000), version("l", 6, A, timestamp=5_000))
    store.publish(writer, "users", version("other", 7, B))
    store.publish(writer, "users", version("k", 5, C, partition=1, timestamp=1_000))
    store.publish(writer, "users", version("k", 6, C, partition=1, timestamp=2_000))
    writer.publish(store.next_seq(), {"users": Change({0: 8, 1: 7})})
    writer.take(build, base)
    assert store.plans("users", "k", "l", "other") == ["b", "a", "b"]
    assert store.plans("users", "k", pin={0: 6, 1: 6}) == ["b"]


def test_an_abandoned_build_leaves_the_table_and_no_file(store):
    writer = store.writer()
    store.publish(writer, "users", version("a", 0, A))
    before = store.files()
    build = writer.build("users")
    store.base(build, version("b", 0, B))
    writer.abandon(build)
    assert store.plans("users", "a", "b") == ["a", Status.MISS]
    assert store.files() == before
    assert not list(store.path.glob("build-*"))
    writer = store.writer(users=Known({0: 5}))
    build = writer.build("users")
    before = store.files()
    store.publish(writer, "users", version("a", 5, B))
    writer.abandon(build)
    assert store.files() == before


def test_a_publication_that_is_refused_leaves_no_file_however_often_it_is_tried(store, monkeypatch):
    writer = store.writer(users=Known({0: 5}))
    build = writer.build("users")
    base = store.base(build, version("a", 4, A))
    before, written = store.files(), writer._written

    def full(name, sources, floors):
        if name == "events":
            raise Retryable("the disk is full")
        return written(name, sources, floors)

    batch = row_versions([version("k", 5, B)])
    change = Change({0: 6}, {}, None, batch, SPECS["users"].decoder.decode(batch.column("value")).rows)
    seq = store.next_seq()
    with monkeypatch.context() as broken:
        broken.setattr(writer, "_written", full)
        for _ in range(5):
            with pytest.raises(Retryable):
                writer.publish(seq, {"users": change, "events": change})
        assert store.files() == before
    writer.publish(seq, {"users": change, "events": change})
    writer.take(build, base)
    assert store.plans("users", "a", "k") == ["a", "b"]
    assert len(store.files()) == len(before) + 2


def test_a_base_that_cannot_be_shown_leaves_no_file_and_one_that_is_shown_only_those_that_are_named(store, monkeypatch):
    writer = store.writer(users=Known({0: 5}))
    build = writer.build("users")
    base = store.base(build, version("k", 4, A, timestamp=1_000))
    store.publish(writer, "users", version("k", 0, B, partition=1, timestamp=2_000))
    before = store.files()
    with monkeypatch.context() as broken:
        broken.setattr(writer._file, "write", fails_with(Retryable("the disk is full")))
        with pytest.raises(Retryable):
            writer.take(build, base)
    assert store.files() == before
    writer.take(build, base)
    assert store.files() == {one.name for one in writer._manifest.tables["users"].segments}
    assert store.plans("users", "k") == ["b"]


def test_a_merge_that_cannot_be_shown_leaves_no_file_however_often_it_is_tried(store, monkeypatch):
    writer = store.writer(MERGE_ALWAYS)
    store.publish(writer, "users", version("a", 0, A))
    store.publish(writer, "users", version("a", 1, B))
    before = store.files()
    with monkeypatch.context() as broken:
        broken.setattr(writer._file, "write", fails_with(Retryable("the disk is full")))
        for _ in range(3):
            with pytest.raises(Retryable):
                writer.merge()
    assert store.files() == before
    assert writer.merge()
    assert store.plans("users", "a") == ["b"]


def fails_with(error):
    def fail(*_):
        raise error

    return fail


def test_superseded_files_go_after_a_grace_and_a_reader_that_maps_them_goes_on(store):
    writer = store.writer(MERGE_ALWAYS)
    store.publish(writer, "users", version("a", 0, A))
    store.publish(writer, "users", version("a", 1, B))
    before = store.files()
    reader = SegmentsReader(store.path, SPECS)
    view = reader.snapshot().table("users")
    assert writer.merge()
    assert store.files() > before
    store.clock.advance(60_000)
    store.publish(writer, "events", version("e", 0, A))
    assert not store.files() & before
    assert find(view, pa.array(["a"]))[0].values == B
    assert store.plans("users", "a", reader=reader) == ["b"]


def test_merges_drop_what_lies_below_the_floors_and_nothing_else(store):
    writer = store.writer(MERGE_ALWAYS)
    floors = {0: HistoryFloor(2, 1_500)}
    for offset in range(4):
        store.publish(writer, "users", version("k", offset, {"plan": str(offset)}), floors=floors)
    assert writer.merge()
    assert writer.stats()["users"].versions == 3  # offset 1 hides 0, both below the floor
    assert store.plans("users", "k", "k", as_of=pa.array([1_500, 2_500], pa.timestamp("ms"))) == ["1", "2"]
    assert store.plans("users", "k", pin={0: 3}) == ["2"]


def test_a_manifest_that_goes_back_is_refused(store):
    writer = store.writer()
    store.publish(writer, "users", version("a", 0, A))
    old = (store.path / "manifest").read_bytes()
    store.publish(writer, "users", version("a", 1, B))
    reader = SegmentsReader(store.path, SPECS)
    (store.path / "manifest").write_bytes(old)
    with pytest.raises(CorruptState, match="is at 1, this reader has seen 2"):
        reader.snapshot()


def test_a_reader_takes_the_newer_manifest_when_a_segment_is_missing(store, monkeypatch):
    writer = store.writer(MERGE_ALWAYS)
    store.publish(writer, "users", version("a", 0, A))
    store.publish(writer, "users", version("a", 1, B))
    old = (store.path / "manifest").read_bytes()
    writer.merge()
    store.clock.advance(60_000)
    store.publish(writer, "events", version("e", 0, A))
    new = (store.path / "manifest").read_bytes()
    reads = iter([old, new])
    monkeypatch.setattr("stores.segments.read.reader.read_raw_manifest", lambda _: next(reads, new))
    assert store.plans("users", "a") == ["b"]


def test_without_segments_a_reader_may_try_again(store):
    with pytest.raises(Retryable, match="no segments yet"):
        SegmentsReader(store.path, SPECS)


def test_a_segment_may_hold_more_than_one_chunk_of_entries_and_many_versions_of_a_key(store, monkeypatch):
    monkeypatch.setattr("stores.segments.segment._ENTRIES_AT_A_TIME", 7)
    writer = store.writer(MERGE_ALWAYS)
    store.publish(writer, "users", *(version(f"k{n % 20}", n, {"rps": n}) for n in range(900)))
    store.publish(writer, "users", *(version(f"k{n % 20}", n, {"rps": n}) for n in range(900, 1_000)))
    assert writer.merge()
    view = SegmentsReader(store.path, SPECS).snapshot().table("users")
    for pin in (None, {0: 500}, {0: 21}):
        end = 1_000 if pin is None else pin[0]
        found = find(view, pa.array([f"k{n}" for n in range(20)]), ["rps"], pin=pin)
        assert [a.values and a.values["rps"] for a in found] == [(end - 1 - n) // 20 * 20 + n for n in range(20)]


@pytest.mark.parametrize("prefix", ["", "the same sixteen bytes and more/"])
def test_keys_that_only_resemble_those_in_a_large_table_are_missed(store, prefix):
    # Slots hold a few bits of the hash: among so many keys hundreds look like another one until they are compared.
    numbers = pa.array(range(1_000_000, 1_100_000)).cast(pa.string())
    keys = pc.binary_join_element_wise(prefix, numbers, "").cast(pa.binary())
    zeros = pa.array([0] * len(keys), pa.int64())
    columns = [keys, zeros.cast(pa.int32()), zeros, zeros, pa.array([b"{}"] * len(keys), pa.binary())]
    writer = store.writer()
    build = writer.build("events")
    writer.take(build, store.base_of(build, pa.RecordBatch.from_arrays(columns, schema=ROW_VERSIONS)))
    view = SegmentsReader(store.path, SPECS).snapshot().table("events")
    others = pc.binary_join_element_wise(prefix, pa.array(range(2_000_000, 2_200_000)).cast(pa.string()), "")
    assert pc.unique(view.lookup(others, []).status).to_pylist() == [Status.MISS]
    assert pc.unique(view.lookup(keys, []).status).to_pylist() == [Status.HIT]


def test_mapped_segments_hold_no_descriptor_and_one_too_many_leaves_the_answer_to_rocksdb(store):
    writer = store.writer()
    for offset in range(20):
        store.publish(writer, "users", version(f"k{offset}", offset, A))
    before = open_below(store.path)
    reader = SegmentsReader(store.path, SPECS)
    assert store.plans("users", "k3", "k19", reader=reader) == ["a", "a"]
    assert open_below(store.path) == before
    hold = SegmentsHold(store.path, SPECS, str(store.path))
    assert hold.newest() is not None
    hold.close()
    with no_more_files():
        assert hold.newest() is None
        with pytest.raises(Retryable, match="no room for another open or mapped file"):
            SegmentsReader(store.path, SPECS)
    assert hold.newest() is not None
    assert store.plans("users", "k3", reader=reader) == ["a"]


def test_publications_go_on_while_a_check_reads_every_byte(store, monkeypatch):
    writer = store.writer()
    store.publish(writer, "users", version("a", 0, A))
    (segment,) = writer._opened("users")
    verify, reads, goes_on = type(segment.file)._verify, threading.Event(), threading.Event()

    def slow(file):
        reads.set()
        assert goes_on.wait(60)
        verify(file)

    monkeypatch.setattr(type(segment.file), "_verify", slow)
    with ThreadPoolExecutor(2) as threads:
        checked = threads.submit(writer.check, whole=True)
        assert reads.wait(60)
        try:
            threads.submit(store.publish, writer, "events", version("e", 0, B)).result(60)
        finally:
            goes_on.set()
        assert checked.result(60) == {}
    assert store.plans("events", "e") == ["b"]

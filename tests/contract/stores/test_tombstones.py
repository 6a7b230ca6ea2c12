"""What a table without history forgets: keys that were deleted a while ago. Otherwise keys that come and go would make
it grow for ever."""

from contextlib import ExitStack, closing

import pyarrow as pa
import pytest

from stores.protocol import KeyKind, TableUpdate
from stores.rocks import RocksReader, RocksStore
from stores.rocks.layout import QUEUE, prefix
from stores.segments import Change, SegmentsReader, SegmentsWriter, Tiers
from stores.table import Seq, Status, row_versions
from tests.contract.stores.engines import ENGINES
from tests.contract.stores.segments_engine import SegmentsEngine
from tests.contract.stores.store_under_test import DAY, StoreUnderTest, table, version
from tests.support.clock import ManualClock
from tests.support.stores.directories import fast_directory

A, B = {"plan": "a"}, {"plan": "b"}
MANY = 100
"""So many versions at once are folded in columns."""
FORGETTING = ("rocks", "segments merged")


def queue_of(store):
    queued = prefix(QUEUE, store.tables["t"].table_id)
    return list(store._database.scan(queued, queued + b"\xff"))


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def open_rocks(clock):
    """Opens one store again and again."""
    with fast_directory() as directory, ExitStack() as held:

        def open_one(**spec):
            held.close()
            return held.enter_context(closing(RocksStore(directory, {"t": table(**spec)}, clock)))

        yield open_one


@pytest.fixture(params=FORGETTING)
def open_store(request):
    with ExitStack() as stack:

        def open_one(**spec):
            clock = ManualClock()
            engine = stack.enter_context(ENGINES[request.param]({"t": table(**spec)}, clock))
            return StoreUnderTest(engine, clock)

        yield open_one


def statuses(store, *keys, **options):
    return [answer.status for answer in store.find("t", *keys, **options)]


def goes_on(store, offset, count=16):
    """Other keys come, so that all segments are merged."""
    for at in range(offset, offset + count):
        store.publish("t", version(f"other-{at}", at, A))


def test_a_deleted_key_is_a_miss_after_a_day_and_the_other_keys_stay(open_store):
    store = open_store()
    store.publish(
        "t", version("gone", 0, A), version("stays", 1, A), version("gone", 2, None), version("never", 3, None)
    )
    store.clock.advance(DAY - 1)
    store.remove_expired()
    goes_on(store, 4)
    assert statuses(store, "gone", "stays", "never") == [Status.DELETED, Status.HIT, Status.DELETED]
    store.clock.advance(1)
    store.remove_expired()
    goes_on(store, 20)
    assert statuses(store, "gone", "stays", "never") == [Status.MISS, Status.HIT, Status.MISS]


def test_a_key_that_came_again_stays_and_one_that_was_deleted_again_stays_as_long_again(open_store):
    store = open_store()
    store.publish("t", version("back", 0, None), version("again", 1, None))
    store.clock.advance(DAY // 2)
    store.publish("t", version("back", 2, A), version("again", 3, B))
    store.publish("t", version("again", 4, None))
    store.clock.advance(DAY // 2)
    store.remove_expired()
    goes_on(store, 5)
    assert statuses(store, "back", "again") == [Status.HIT, Status.DELETED]
    store.clock.advance(DAY // 2)
    store.remove_expired()
    goes_on(store, 21)
    assert statuses(store, "back", "again") == [Status.HIT, Status.MISS]
    store.publish("t", version("again", 37, B))
    assert statuses(store, "back", "again") == [Status.HIT, Status.HIT]


def test_the_past_of_a_forgotten_key_is_expired_and_no_miss(open_store):
    store = open_store()
    store.publish("t", version("gone", 0, A))
    store.publish("t", version("gone", 1, None))
    store.clock.advance(DAY)
    store.remove_expired()
    goes_on(store, 2)
    assert statuses(store, "gone", pin={0: 1}) == [Status.EXPIRED]
    assert statuses(store, "gone", as_of=[999]) == [Status.EXPIRED]


def test_a_table_with_history_keeps_what_a_pin_may_ask_for(open_store):
    store = open_store(history_ms=1_000)
    store.publish("t", version("gone", 0, A), version("gone", 1, None))
    store.clock.advance(2 * DAY)
    store.remove_expired()
    goes_on(store, 2)
    assert statuses(store, "gone") == [Status.DELETED]


def test_a_key_whose_times_went_back_keeps_the_version_that_answers_for_a_later_time(open_store):
    store = open_store()
    store.publish("t", version("k", 0, A, timestamp=9_000), version("k", 1, None, timestamp=1_000))
    store.publish("t", version("gone", 2, None))
    store.clock.advance(DAY)
    store.remove_expired()
    goes_on(store, 3)
    assert statuses(store, "k", "gone") == [Status.DELETED, Status.MISS]
    assert statuses(store, "k", as_of=[9_000]) == [Status.HIT]


def test_a_key_in_two_partitions_is_no_miss_while_one_of_them_has_it(open_store):
    store = open_store()
    store.publish("t", version("k", 0, A, partition=1, timestamp=5), version("k", 0, None, timestamp=9))
    store.clock.advance(2 * DAY)
    store.remove_expired()
    goes_on(store, 1)
    assert statuses(store, "k") == [Status.DELETED]


def test_a_deleted_network_uncovers_the_one_around_it_all_the_same(open_store):
    store = open_store(key=KeyKind.CIDR)
    store.publish("t", version("10.0.0.0/8", 0, A), version("10.1.0.0/16", 1, None), version("11.0.0.0/8", 2, None))
    assert statuses(store, "10.1.0.1", "11.0.0.1") == [Status.HIT, Status.DELETED]
    store.clock.advance(DAY)
    store.remove_expired()
    for at in range(3, 19):
        store.publish("t", version(f"12.{at}.0.0/16", at, A))
    assert statuses(store, "10.1.0.1", "11.0.0.1") == [Status.HIT, Status.MISS]


def test_a_merge_that_leaves_the_oldest_segment_out_keeps_the_tombstone_that_hides_its_row():
    with fast_directory() as directory, ExitStack() as stack:
        clock = ManualClock()
        tiers = Tiers(fan_in=4, smallest=1, base_share=1e9)
        engine = SegmentsEngine(directory, {"t": table()}, clock, stack, tiers)
        store = StoreUnderTest(engine, clock)
        store.publish("t", version("gone", 0, A))
        store.publish("t", version("gone", 1, None))
        store.clock.advance(DAY)
        store.remove_expired()
        goes_on(store, 2)
        assert statuses(store, "gone") == [Status.DELETED]


def test_a_merge_in_a_table_with_history_keeps_tombstones_below_those_that_a_snapshot_lacked():
    with fast_directory() as directory:
        clock, specs = ManualClock(), {"t": table(history_ms=1_000)}
        writer = SegmentsWriter(directory, specs, Seq("one", 0, 0), {}, clock, tiers=Tiers(2, 1, 0, 0))
        for at in range(4):
            versions = row_versions([version(f"k{at}", at, None)])
            rows = specs["t"].decoder.decode(versions.column("value")).rows
            change = Change({0: at + 1}, versions=versions, rows=rows, buried={0: 10})
            writer.publish(Seq("one", 0, at + 1), {"t": change})
        assert writer.merge()
        with closing(SegmentsReader(directory, specs)) as reader:
            found = reader.snapshot().table("t").lookup(pa.array(["k0"]), [])
    assert found.status.to_pylist() == [Status.DELETED]


@pytest.mark.parametrize("way", ["a publication", "a load"])
def test_nothing_is_left_of_keys_that_came_and_went(way):
    versions = [version(f"k{at}", at, None if at % 10 else A) for at in range(1_000)]
    with fast_directory() as directory:
        clock, specs = ManualClock(), {"t": table()}
        with closing(RocksStore(directory, specs, clock)) as store:
            if way == "a load":
                load = store.bulk("t")
                load.add(row_versions(versions))
                load.finish({0: 1_000})
            else:
                store.publish({"t": TableUpdate(row_versions(versions), {0: 1_000})})
            assert store.tables["t"].rows == 1_000
            clock.advance(DAY)
            removed = [store.remove_expired(400).removed for _ in range(4)]
            assert (removed, store.tables["t"].rows) == ([400, 400, 100, 0], 100)
            assert store.tables["t"].buried == {0: 1_000}
            assert not queue_of(store)
        with closing(RocksStore(directory, specs, clock)) as store, closing(RocksReader(directory, specs)) as reader:
            reader.verify()
            assert store.tables["t"].rows == 100


@pytest.mark.parametrize("keys", [3, MANY])
def test_keys_that_come_and_go_often_are_queued_once(open_rocks, clock, keys):
    store, offset = open_rocks(), 0
    for value in (A, None, B, None, A, None):
        clock.advance(1)
        versions = [version(f"k{at}", offset + at, value) for at in range(keys)]
        offset += keys
        store.publish({"t": TableUpdate(row_versions(versions), {0: offset})})
        assert len(queue_of(store)) == (keys if value is None else 0)
    clock.advance(DAY)
    assert (store.remove_expired().removed, store.tables["t"].rows) == (keys, 0)


@pytest.mark.parametrize("keys", [3, MANY])
def test_a_table_that_is_given_a_history_keeps_its_tombstones_and_the_pass_says_how_many_it_looked_at(
    open_rocks, clock, keys
):
    versions = [version(f"k{at}", at, None) for at in range(keys)]
    open_rocks().publish({"t": TableUpdate(row_versions(versions), {0: keys})})
    store = open_rocks(history_ms=1_000)
    clock.advance(2 * DAY)
    found = store.remove_expired(2)
    assert (found.removed, found.looked_at) == (0, 2)
    store.remove_expired()
    assert (store.tables["t"].rows, queue_of(store)) == (keys, [])


@pytest.mark.parametrize("keys", [3, MANY])
def test_what_was_updated_while_the_table_had_a_history_is_forgotten_too(open_rocks, clock, keys):
    store = open_rocks(history_ms=1_000)
    for start, value in ((0, A), (keys, B)):
        versions = [version(f"k{at}", start + at, value) for at in range(keys)]
        store.publish({"t": TableUpdate(row_versions(versions), {0: start + keys})})
    store = open_rocks()
    versions = [version(f"k{at}", 2 * keys + at, None) for at in range(keys)]
    store.publish({"t": TableUpdate(row_versions(versions), {0: 3 * keys})})
    clock.advance(DAY)
    store.remove_expired()
    assert (store.tables["t"].rows, queue_of(store)) == (0, [])

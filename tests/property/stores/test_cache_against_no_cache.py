"""A reader with a cache answers as one without, whatever was published, swapped, restarted or missed in between."""

from contextlib import ExitStack
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stores.protocol import KeyKind, TableUpdate
from stores.rocks import CachedReader, RocksReader, RocksStore
from stores.table import RowVersion, row_versions
from tests.contract.stores.store_under_test import table
from tests.support.clock import ManualClock
from tests.support.directories import fast_directory

SPECS = {"exact": table(), "past": table(history_ms=5), "networks": table(key=KeyKind.CIDR)}
KEYS = {
    "exact": ["a", "b", "c", "", "d"],
    "past": ["a", "b"],
    "networks": ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "::/0"],
}
PROBES = {**KEYS, "networks": ["10.1.2.3", "10.1.9.9", "10.9.9.9", "::1", "no address"]}

NAMES = st.sampled_from(list(KEYS))
ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 9)), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.dictionaries(NAMES, ROWS, min_size=1)),
        st.tuples(st.just("publish"), st.dictionaries(NAMES, ROWS, min_size=1)),
        st.tuples(st.just("load"), st.tuples(NAMES, ROWS)),
        st.tuples(st.just("expire"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("look"), st.lists(st.integers(0, 4), max_size=6)),
        st.tuples(st.just("look"), st.lists(st.integers(0, 4), max_size=6)),
    ),
    max_size=14,
)


@given(steps=STEPS, most=st.sampled_from([1, 3, 1_000]), recent=st.sampled_from([0, 2]), ring=st.sampled_from([2, 8]))
def test_a_cached_reader_answers_as_one_without_a_cache(steps, most, recent, ring):
    with ExitStack() as held:
        directory = held.enter_context(fast_directory())
        held.enter_context(patch("stores.rocks.changes.ENTRIES", ring))
        held.enter_context(patch("stores.rocks.changes._LARGEST", 64))
        held.enter_context(patch("stores.rocks.read.kept_answers._RECENT", recent))
        clock = ManualClock(0)
        path = directory / "store"
        store = RocksStore(path, SPECS, clock)
        held.callback(lambda: store.close())
        plain, cached = RocksReader(path, SPECS), CachedReader(RocksReader(path, SPECS), most=most)
        held.callback(plain.close)
        held.callback(cached.close)
        offset = 0
        for step, given_ in [*steps, ("look", range(5))]:
            if step == "publish":
                updates = {}
                for name, rows in given_.items():
                    updates[name] = TableUpdate(row_versions(versions(name, rows, offset)), {0: offset + len(rows)})
                    offset += len(rows)
                store.publish(updates)
            elif step == "load":
                name, rows = given_
                bulk = store.bulk(name)
                bulk.add(row_versions(versions(name, rows, offset)))
                offset += len(rows)
                bulk.finish({0: offset})
            elif step == "expire":
                clock.advance(3)
                store.remove_expired()
            elif step == "reopen":
                store.close()
                store = RocksStore(path, SPECS, clock)
            else:
                expected, found = plain.snapshot(), cached.snapshot()
                assert found.seq == expected.seq
                for name, probes in PROBES.items():
                    keys = pa.array([probes[at % len(probes)] for at in given_] + [None, "nowhere"], pa.string())
                    for columns in (["plan"], [], ["rps", "plan"]):
                        answers = [s.table(name).lookup(keys, columns) for s in (expected, found)]
                        assert len({str([array.to_pylist() for array in parts(found)]) for found in answers}) == 1
                        assert [array.type for array in parts(answers[0])] == [a.type for a in parts(answers[1])]


def parts(found):
    return [found.values, found.status, found.partition, found.offset, found.timestamp]


def versions(name, rows, offset):
    return [
        RowVersion(
            KEYS[name][key % len(KEYS[name])].encode(),
            0,
            offset + at,
            time,
            None if is_tombstone else b'{"plan":"%d"}' % (offset + at),
        )
        for at, (key, is_tombstone, time) in enumerate(rows)
    ]

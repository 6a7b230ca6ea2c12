"""A table without history forgets keys that were deleted, and nothing else, whatever comes and in whatever order."""

from contextlib import ExitStack
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.rocks import RocksReader, RocksStore
from stores.table import RowVersion, Status
from tests.contract.stores.engines import ENGINES
from tests.contract.stores.store_under_test import StoreUnderTest, table
from tests.property.stores.model import Model
from tests.support.clock import ManualClock
from tests.support.stores.directories import fast_directory

KEPT_MS = 10
KEYS = ["a", "b", "c", ""]
ROW = st.tuples(st.sampled_from(KEYS), st.sampled_from([0, 0, 0, 1]), st.integers(-3, 3), st.booleans())
STEPS = st.lists(st.one_of(st.lists(ROW, max_size=5), st.integers(0, 12)), max_size=12)


def lived(engine, clock, steps):
    """The store, the model, and when each version came."""
    store, model, ends, came = StoreUnderTest(engine, clock), Model(), {0: 0, 1: 0}, {}
    for step in steps:
        if isinstance(step, int):
            clock.advance(step)
            store.remove_expired()
            continue
        versions = []
        for key, partition, late, is_tombstone in step:
            offset = ends[partition]
            ends[partition] += 1
            value = None if is_tombstone else b'{"plan":"%d/%d"}' % (partition, offset)
            versions.append(RowVersion(key.encode(), partition, offset, 2 * offset + late, value))
            came[partition, offset] = clock.now_ms()
        model.add(versions)
        store.publish("t", *versions)
    return store, model, came


@pytest.mark.parametrize("engine_name", ["rocks", "segments merged"])
@given(steps=STEPS)
def test_every_key_answers_as_the_model_does_but_for_what_was_deleted_long_ago(engine_name, steps):
    clock = ManualClock(now_ms=0)
    with ExitStack() as stack:
        engine = stack.enter_context(ENGINES[engine_name]({"t": table(tombstones_ms=KEPT_MS)}, clock))
        store, model, came = lived(engine, clock, steps)
        for key, time in product(KEYS, (None, *range(-3, 2 * max(len(came), 1), 3))):
            (answer,) = store.find("t", key, as_of=None if time is None else [time])
            if time is not None and answer.status is Status.EXPIRED:
                continue
            status, *place = model.find(key, time)
            if status is Status.DELETED and clock.now_ms() - came[tuple(place)] >= KEPT_MS:
                # A version of another partition, which the forgotten tombstone would hide, may have come since.
                is_split = len({v.partition for v in model.versions if v.key == key.encode()}) > 1
                assert answer.status in (Status.DELETED, Status.MISS) or is_split
            else:
                assert (answer.status, *(answer.position or (None, None))) == (status, *place)


@given(steps=STEPS)
def test_the_rows_are_those_that_are_counted_and_all_long_deleted_keys_of_one_partition_are_gone(steps):
    clock = ManualClock(now_ms=0)
    specs = {"t": table(tombstones_ms=KEPT_MS)}
    with fast_directory() as directory, ExitStack() as stack:
        writer = RocksStore(directory / "store", specs, clock)
        stack.callback(writer.close)
        reader = RocksReader(directory / "store", specs)
        stack.callback(reader.close)

        class Engine:
            def __init__(self):
                self.writer = writer

            def open_reader(self):
                return reader

        _, model, _ = lived(Engine(), clock, steps)
        clock.advance(KEPT_MS)
        writer.remove_expired()
        reader.verify()
        plain = {key for key in KEYS if is_plain([v for v in model.versions if v.key == key.encode()])}
        left = {key for key in plain if model.find(key)[0] is Status.HIT}
        stored = {key.decode() for key, _ in reader.snapshot().table("t").whole().entries()}
        assert stored & plain == left


def is_plain(versions):
    """One partition, and times that never go back: of other keys an older version may answer for a time."""
    times = [version.timestamp for version in versions]
    return len({version.partition for version in versions}) == 1 and times == sorted(times)

"""A bulk load leaves a table that answers as if its versions had been published, wherever its floors allow to ask."""

from contextlib import ExitStack
from itertools import product

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stores.protocol import TableUpdate
from stores.rocks import RocksReader, RocksStore
from stores.table import TIMESTAMP, HistoryFloor, RowVersion, Status, row_versions
from tests.contract.stores.store_under_test import find, table
from tests.property.stores.model import Model
from tests.property.stores.rows import FLOORS, as_versions, ends_of, rows_of
from tests.support.clock import ManualClock
from tests.support.stores.directories import fast_directory

KEYS = ["a", "a\0", "", "b"]
ROWS = rows_of(KEYS, 10)
NOW = 4


@given(rows=ROWS, tail=ROWS, floors=FLOORS, history=st.sampled_from([0, 3]), budget=st.sampled_from([1, 500, 1 << 20]))
def test_a_bulk_load_answers_as_the_model_does_from_its_floors_on(rows, tail, floors, history, budget):
    versions = as_versions(rows + tail)
    loaded, tailed = versions[: len(rows)], versions[len(rows) :]
    ends = ends_of(loaded)
    floors = {p: HistoryFloor(min(floor.offset, ends[p]), floor.timestamp) for p, floor in floors.items()}
    model = Model()
    model.add(versions)
    with fast_directory() as directory, ExitStack() as held:
        specs = {"t": table(history)}
        store = RocksStore(directory / "store", specs, ManualClock(NOW))
        held.callback(store.close)
        store.publish({"t": TableUpdate(row_versions([RowVersion(b"old", 0, 0, 0, b"{}")]), {0: 1})})
        bulk = store.bulk("t", budget=budget)
        for start in range(0, len(loaded), 3):
            bulk.add(row_versions(loaded[start : start + 3]))
        bulk.finish(ends_of(loaded), floors)
        store.publish({"t": TableUpdate(row_versions(tailed), ends_of(versions))})
        store.remove_expired()
        reader = RocksReader(directory / "store", specs)
        held.callback(reader.close)
        reader.verify()
        view = reader.snapshot().table("t")
        assert find(view, pa.array(["old"]))[0].status is Status.MISS
        ends = ends_of(versions)
        pins = [None, *({0: a, 1: b} for a, b in product(range(ends[0] + 1), range(ends[1] + 1)))]
        timed = list(product(KEYS, range(-1, 8)))
        keys, times = pa.array([key for key, _ in timed]), pa.array([time for _, time in timed], TIMESTAMP)
        for pin in pins:
            answers = [*find(view, pa.array(KEYS), pin=pin), *find(view, keys, as_of=times, pin=pin)]
            for (key, time), answer in zip([*((key, None) for key in KEYS), *timed], answers, strict=True):
                if answer.status is not Status.EXPIRED:
                    assert (answer.status, *(answer.position or (None, None))) == model.find(key, time, pin)
        # The present is never expired, and nothing is that the given floors and the history cover. A table without
        # history promises no time at all: it keeps one version of a key, whatever clock its producer has.
        assert Status.EXPIRED not in {a.status for a in find(view, pa.array(KEYS), pin=ends)}
        for partition, floor in view.floors.items():
            given_floor = floors.get(partition, HistoryFloor(0, 0))
            newest = max(version.timestamp for version in versions) if versions else 0
            assert floor.timestamp <= max(given_floor.timestamp, NOW - history if history else newest)

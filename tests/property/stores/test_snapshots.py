"""A snapshot holds a table as it is: whoever takes it in gives the same answers, for every time and every pin."""

from contextlib import ExitStack
from itertools import product

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stores.protocol import TableUpdate
from stores.rocks import RocksReader, RocksStore
from stores.snapshots import Origin, export_table, open_snapshot
from stores.table import TIMESTAMP, HistoryFloor, row_versions
from tests.contract.stores.store_under_test import find, table
from tests.property.stores.rows import FLOORS, as_versions, ends_of, rows_of
from tests.support.clock import ManualClock
from tests.support.seed import rounds
from tests.support.stores.directories import fast_directory

KEYS = ["a", "a\0", "a\0\xff", "", "b"]
ROWS = rows_of(KEYS, 12)
NOW = 4


def every_answer(view):
    ends = view.positions
    keys = pa.array([key.encode("latin-1") for key in KEYS])
    timed = list(product(keys.to_pylist(), range(-1, 8)))
    timed_keys, times = pa.array([key for key, _ in timed]), pa.array([time for _, time in timed], TIMESTAMP)
    pins = [None, *({0: a, 1: b} for a, b in product(range(ends[0] + 1), range(ends[1] + 1)))]
    for pin in pins:
        yield find(view, keys, pin=pin)
        yield find(view, timed_keys, as_of=times, pin=pin)


# A publication that drops versions by itself and is told a lower floor.
@example(
    rows=[("a", 0, 0, False), ("a", 0, -1, False), ("a", 0, 0, False)],
    floors={0: HistoryFloor(0, 0)},
    history=0,
    cut=0,
    budget=1,
)
@settings(max_examples=rounds(40, 2_000))
@given(
    rows=ROWS,
    floors=FLOORS,
    history=st.sampled_from([0, 3]),
    cut=st.integers(0, 12),
    budget=st.sampled_from([1, 1 << 20]),
)
def test_a_table_made_of_a_snapshot_answers_as_the_one_that_it_was_made_of(rows, floors, history, cut, budget):
    versions = as_versions(rows)
    with fast_directory() as directory, ExitStack() as held:
        specs = {"t": table(history)}
        stores = [RocksStore(directory / name, specs, ManualClock(NOW)) for name in ("one", "other")]
        for store in stores:
            held.callback(store.close)
        one, other = stores
        floors = {
            p: HistoryFloor(min(floor.offset, ends_of(versions)[p]), floor.timestamp) for p, floor in floors.items()
        }
        for batch, known in ((versions[:cut], {}), (versions[cut:], floors)):
            one.publish({"t": TableUpdate(row_versions(batch), ends_of(batch), 1, known, {"topic_id": "x"})})
        one.publish({"t": TableUpdate(row_versions(()), ends_of(versions), 1)})
        one.remove_expired()
        reader = RocksReader(directory / "one", specs)
        held.callback(reader.close)
        reader_snapshot = reader.snapshot()
        source = reader_snapshot.table("t").whole()
        origin = Origin("p", "t", "topic", "definition", reader_snapshot.seq, NOW, 1, source.state.notes)
        exported = export_table(source, origin, directory / "snapshots")

        snapshot = open_snapshot(exported.path)
        assert snapshot == exported
        assert snapshot.manifest.notes == {"topic_id": "x"}
        bulk = other.bulk("t", budget=budget)
        for batch in snapshot.versions():
            bulk.add(batch)
        bulk.finish(snapshot.manifest.positions, snapshot.manifest.floors, snapshot.manifest.complete_through)
        second = RocksReader(directory / "other", specs)
        held.callback(second.close)
        second.verify()
        state = other.tables["t"]
        assert (state.rows, f"{state.digest:016x}") == (snapshot.manifest.rows, snapshot.manifest.digest)
        assert state.positions == one.tables["t"].positions
        assert list(second.snapshot().table("t").scan()) == list(reader_snapshot.table("t").scan())
        first, again = reader_snapshot.table("t"), second.snapshot().table("t")
        assert again.floors == first.floors
        assert list(every_answer(again)) == list(every_answer(first))

"""A refresh says when its read began, and a keeper believes only what is published."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from enrich.config import load_text
from enrich.host.loaders.keeper import LoaderKeeper
from enrich.host.loaders.refreshing import Refresher
from enrich.host.loaders.source import SourceBatch
from enrich.host.tables import LoaderTable, all_tables
from stores.protocol import TableSpec
from stores.rocks import RocksStore
from tests.support.clock import ManualClock
from tests.support.host.listed_source import ListedSource
from tests.support.waiting import wait_until

COLUMNS = pa.schema([("n", pa.int32())])
SPEC = TableSpec(COLUMNS, JsonDecoder(COLUMNS))
PIPELINE = (
    "name: test\nkafka: {bootstrap_servers: 'h:9092'}\n"
    "tables: {t: {loader: {redis: 'redis://h'}, format: json, columns: 'n int'}}\n"
)


class SlowSource(ListedSource):
    """Time passes while it is read."""

    def __init__(self, clock, *batches):
        super().__init__(*batches)
        self._clock = clock

    def batches(self, stopping) -> Iterator[SourceBatch]:
        for batch in super().batches(stopping):
            yield batch
            self._clock.advance(1_000)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(tmp_path, clock):
    with closing(RocksStore(tmp_path / "rows", {"t": SPEC}, clock)) as store:
        yield store


def refresher_of(source, store, clock, **more):
    return Refresher("t", SPEC, source, store, clock, lambda _: None, **more)


@pytest.mark.parametrize("most_in_one_write", [0, 10])
def test_a_table_is_complete_through_the_begin_of_the_read(store, clock, most_in_one_write):
    began = clock.now_ms()
    source = SlowSource(clock, [(b"a", b'{"n": 1}')], [(b"b", b'{"n": 2}')])
    refresher = refresher_of(source, store, clock, most_in_one_write=most_in_one_write)
    refreshed = refresher.refresh(lambda _: None, lambda: False)
    assert refreshed.complete_through == began
    if refreshed.update is not None:
        assert refreshed.update.versions["timestamp"].to_pylist() == [began, began]
        store.publish({"t": refreshed.update})
    assert store.tables["t"].complete_through == began
    assert store.tables["t"].positions == {0: 2}


def test_a_clock_that_is_set_back_makes_no_version_older_than_the_one_before(store, clock):
    source = ListedSource([(b"a", b'{"n": 1}')])
    refresher = refresher_of(source, store, clock)
    first = refresher.refresh(lambda _: None, lambda: False)
    store.publish({"t": first.update})
    clock.advance(-500_000)
    source.contents = ([(b"a", b'{"n": 2}')],)
    second = refresher.refresh(lambda _: None, lambda: False)
    assert second.complete_through == clock.now_ms()
    assert second.update.versions["timestamp"].to_pylist() == [first.complete_through]


def test_a_table_is_ready_when_its_rows_are_written_and_not_when_they_were_read(store, clock):
    table = all_tables(load_text(PIPELINE))["t"]
    assert isinstance(table, LoaderTable)
    with ThreadPoolExecutor(1) as threads:
        refresher = refresher_of(ListedSource([(b"a", b"{}")]), store, clock)
        keeper = LoaderKeeper(table, refresher, store, threads, clock, suspect=lambda: None)

        def update():
            keeper.step()
            return keeper.update(None)

        update = wait_until(update, what="the update")
        assert not keeper.state().ready
        store.publish({"t": update})
        assert keeper.state().ready


def test_whatever_a_read_or_a_write_raises_is_the_tables_trouble_and_nothing_is_lost(store, clock):
    class Faulty(ListedSource):
        error: Exception | None = None

        def batches(self, stopping):
            if self.error is not None:
                raise self.error
            return super().batches(stopping)

    with ThreadPoolExecutor(1) as threads:
        source = Faulty([(b"a", b'{"n": 1}')])
        table = all_tables(load_text(PIPELINE))["t"]
        assert isinstance(table, LoaderTable)
        keeper = LoaderKeeper(table, refresher_of(source, store, clock), store, threads, clock, suspect=lambda: None)

        def stepped():
            clock.advance(1_000)
            try:
                keeper.step()
                return keeper.update(None)
            except RuntimeError as error:
                keeper.failed(error)
            return None

        source.error = RuntimeError("nobody has thought of this")
        wait_until(lambda: stepped() or keeper.state().next_try, what="the trouble")
        assert "nobody has thought of this" in str(keeper.state().reason)
        source.error = None
        wait_until(stepped, what="the update")
        keeper.failed(RuntimeError("the store could not take it"))
        store.publish({"t": wait_until(stepped, what="the same update again")})
        assert store.tables["t"].rows == 1
        assert (keeper.state().ready, keeper.state().next_try) == (True, None)


def test_tombstones_of_keys_that_come_and_go_do_not_gather(store, clock):
    source = ListedSource()
    refresher = refresher_of(source, store, clock, most_in_one_write=5)
    for number in range(20):
        clock.advance(1_000)
        source.contents = ([(b"stays", b"{}"), (b"stays too", b"{}"), (b"%d" % number, b"{}")],)
        refreshed = refresher.refresh(lambda _: None, lambda: False)
        if refreshed.update is not None:
            store.publish({"t": refreshed.update})
    assert store.tables["t"].rows <= 3 + 5 + 2
    assert store.tables["t"].positions == {0: 3 + 2 * 19}

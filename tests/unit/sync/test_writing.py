"""A store that is slow gets less at once, and goes on with what it has written."""

import itertools
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from enrich.base.errors import BadRecord, Retryable, TooSlow
from stores.external import VersionedRows, Written
from sync_service.writeback.writing import ParallelWriter, RowWriter


def rows_of(count: int) -> VersionedRows:
    keys = pa.array([b"%d" % number for number in range(count)])
    return VersionedRows(keys, pa.array(range(count), pa.int64()), pa.array([{}] * count, pa.struct([])))


class SlowStore:
    """Writes some rows a second; what takes more than ten seconds it gives up."""

    def __init__(self, rows_per_s: float) -> None:
        self.rows_per_s = rows_per_s
        self.now = 0.0
        self.pieces: list[int] = []
        self.written: list[bytes] = []

    def write(self, rows: VersionedRows) -> Written:
        self.now += min(10.0, len(rows) / self.rows_per_s)
        if len(rows) / self.rows_per_s > 10:
            raise TooSlow("too slow")
        if b"bad" in rows.keys.to_pylist():
            raise BadRecord("bad")
        self.pieces.append(len(rows))
        self.written += rows.keys.to_pylist()
        return Written(len(rows))


def writer_of(store: SlowStore, most: int = 5_000) -> RowWriter:
    return RowWriter(store.write, lambda _: None, most=most, clock=lambda: store.now)


def test_what_is_too_slow_at_once_is_written_in_pieces_each_row_once() -> None:
    store = SlowStore(100)
    writer, breaths = writer_of(store), list[float]()
    assert writer.write(rows_of(5_000), lambda: breaths.append(store.now)).applied == 5_000
    assert sorted(store.written) == sorted(rows_of(5_000).keys.to_pylist())
    assert max(later - earlier for earlier, later in itertools.pairwise(breaths)) <= 10
    tries = len(breaths)
    writer.write(rows_of(5_000), lambda: breaths.append(store.now))
    assert len(breaths) - tries == len(store.pieces) / 2  # the second batch begins with the size that was found


def test_pieces_grow_again_once_the_store_is_fast() -> None:
    store = SlowStore(100)
    writer = writer_of(store)
    writer.write(rows_of(5_000))
    store.rows_per_s = 1e6
    for _ in range(20):
        writer.write(rows_of(5_000))
    assert writer.piece == 5_000


def test_a_batch_is_never_more_than_was_asked_for() -> None:
    store = SlowStore(1e6)
    writer_of(store, most=7).write(rows_of(100))
    assert max(store.pieces) == 7


def test_a_single_row_that_is_too_slow_is_told() -> None:
    with pytest.raises(TooSlow):
        writer_of(SlowStore(0.01)).write(rows_of(3))


def test_several_connections_write_one_batch_together_and_name_the_right_rows() -> None:
    together = threading.Barrier(4)

    def part(bad: bytes) -> Callable[[VersionedRows], Written]:
        def write(rows: VersionedRows) -> Written:
            together.wait(30)
            keys = rows.keys.to_pylist()
            return Written(len(keys) - (bad in keys), {keys.index(bad): BadRecord("bad")} if bad in keys else {})

        return write

    writer = ParallelWriter([RowWriter(part(b"%d" % bad)) for bad in (3, 30, 60, 99)])
    written = writer.write(rows_of(100))
    assert (written.applied, sorted(written.refused)) == (96, [3, 30, 60, 99])
    writer.close()


def test_the_trouble_of_one_connection_is_told_once_all_have_ended() -> None:
    ended = []

    def fails(rows: VersionedRows) -> Written:
        raise Retryable("away")

    def writes(rows: VersionedRows) -> Written:
        ended.append(len(rows))
        return Written(len(rows))

    writer = ParallelWriter([RowWriter(fails, lambda _: None), RowWriter(writes)])
    with pytest.raises(Retryable):
        writer.write(rows_of(10))
    assert ended == [5]
    writer.close()

"""What a store holds in these tests, as a function of the offset alone: nothing has to be remembered to check it.

Run as a program, it writes a store as fast as it can, tells every acknowledgement, and ends when it is killed.
"""

import sys
from pathlib import Path

import pyarrow as pa

from enrich.codecs import JsonDecoder
from stores.clock import SystemClock
from stores.protocol import TableSpec, TableUpdate
from stores.rocks import RocksReader, RocksStore, Sizes
from stores.table import RowVersion, Status, row_versions
from tests.support.stores.records import raw_record

COLUMNS = pa.schema([pa.field("offset", pa.int64())])
SPECS = {name: TableSpec(COLUMNS, JsonDecoder(COLUMNS), history_ms=20) for name in ("left", "right")}
KEYS = 300
SIZES = Sizes(block_cache=1 << 20, write_buffer=1 << 18)  # small, so that memory is also written out by itself


def key_of(offset: int) -> bytes:
    """Every third record tells the newest offset; the others are spread over the keys."""
    return b"mark" if offset % 3 == 0 else b"key-%03d" % (offset * 7919 % KEYS)


def is_bad(offset: int) -> bool:
    return offset % 41 in (5, 6)


def version_at(offset: int) -> RowVersion:
    if is_bad(offset):
        return raw_record(key_of(offset) if offset % 41 == 5 else None, 0, offset, offset, b"no json: %d" % offset)
    value = None if offset % 11 == 5 else b'{"offset":%d,"pad":"%s"}' % (offset, b"x" * (offset % 200))
    return RowVersion(key_of(offset), 0, offset, offset, value)


def expected(end: int) -> dict[bytes, RowVersion]:
    """The newest version of each key when everything below `end` is in."""
    newest: dict[bytes, RowVersion] = {}
    for offset in range(max(0, end - 4 * KEYS), end):
        if is_bad(offset):
            continue
        newest[key_of(offset)] = version_at(offset)
    return newest


def end_of(view) -> int:
    return int(view.positions.get(0, 0))


def assert_whole(view) -> None:
    """The table, and its quarantine, hold exactly what stands below its position."""
    bad = [offset for offset in range(end_of(view)) if is_bad(offset)]
    quarantined = list(view.quarantined())
    assert [record.offset for record in quarantined] == bad
    assert [(record.key, record.value) for record in quarantined] == [
        (version.key, version.value) for version in map(version_at, bad)
    ]
    assert view.quarantine.records == len(bad)
    assert_rows(view)


def assert_rows(view) -> None:
    newest = expected(end_of(view))
    keys = list(newest)
    found = view.lookup(pa.array(keys, pa.binary()), ["offset"])
    assert found.offset.to_pylist() == [newest[key].offset for key in keys]
    deleted = [newest[key].value is None for key in keys]
    assert [status == Status.DELETED for status in found.status.to_pylist()] == deleted
    values = [None if row is None else row["offset"] for row in found.values.to_pylist()]
    assert values == [None if newest[key].value is None else newest[key].offset for key in keys]


def batch(start: int, end: int) -> TableUpdate:
    return TableUpdate(row_versions(version_at(offset) for offset in range(start, end)), {0: end})


def write_for_ever(directory: Path) -> None:
    store = RocksStore(directory, SPECS, SystemClock(), sizes=SIZES)
    step = 0
    while True:
        start = store.tables["left"].positions.get(0, 0)
        end = start + 1 + start * 31 % 60
        seq = store.publish({name: batch(start, end) for name in SPECS}).seq
        print(seq.counter, end, flush=True)  # noqa: T201 - the test reads it
        step += 1
        if step % 5 == 0:
            store.remove_expired()
        if step % 16 == 0:
            bulk = store.bulk("right", budget=20_000)
            for first in range(max(0, end - 4 * KEYS), end, 200):
                bulk.add(batch(first, min(first + 200, end)).versions)
            bulk.finish({0: end})


def open_reader(directory: Path) -> RocksReader:
    return RocksReader(directory, SPECS, sizes=SIZES)


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]))

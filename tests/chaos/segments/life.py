"""What segments hold in these tests, as a function of the offset alone: nothing has to be remembered to check it.

Run as a program, it publishes, merges and builds as fast as it can, tells what it published, and ends when killed.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from enrich.codecs import JsonDecoder
from stores.clock import SystemClock
from stores.errors import Retryable
from stores.protocol import TableSpec
from stores.segments import Base, Change, Known, SegmentsReader, SegmentsWriter, Tiers
from stores.segments.manifest import parse_manifest, read_raw_manifest
from stores.table import HistoryFloor, RowVersion, Seq, Status, row_versions

COLUMNS = pa.schema([("offset", pa.int64()), ("text", pa.string()), ("parts", pa.list_(pa.int64()))])
SPECS = {name: TableSpec(COLUMNS, JsonDecoder(COLUMNS), history_ms=20) for name in ("left", "right")}
KEYS = 300
KEPT = 200
"""So many offsets of the past can be asked for."""
TIERS = Tiers(fan_in=3, smallest=50, base_share=0.5, base_at_least=500)


def key_of(offset: int) -> bytes:
    """Every third record tells the newest offset; the others are spread over the keys, short ones and long ones."""
    number = offset * 7919 % KEYS
    return b"mark" if offset % 3 == 0 else b"key-%03d%s" % (number, b"/long" * (number % 5))


def row_at(offset: int) -> dict[str, object] | None:
    text = None if offset % 7 == 3 else "x" * (offset % 40)
    return None if offset % 11 == 5 else {"offset": offset, "text": text, "parts": [offset] * (offset % 3)}


def version_at(offset: int) -> RowVersion:
    row = row_at(offset)
    return RowVersion(key_of(offset), 0, offset, offset, None if row is None else json.dumps(row).encode())


def newest_below(end: int) -> dict[bytes, int]:
    """The offset of each key's newest version."""
    return {key_of(offset): offset for offset in range(max(0, end - 4 * KEYS), end)}


def end_of(view) -> int:
    return int(view.positions.get(0, 0))


def known(end: int) -> Known:
    floor = max(0, end - KEPT)
    return Known({0: end} if end else {}, {0: HistoryFloor(floor, floor)})


def change(start: int, end: int) -> Change:
    state = known(end)
    versions = row_versions(version_at(offset) for offset in range(start, end))
    rows = SPECS["left"].decoder.decode(versions.column("value")).rows
    return Change(state.positions, state.floors, None, versions, rows)


def all_versions(end: int) -> Iterator[pa.RecordBatch]:
    """All that a table must hold when everything below `end` is in."""
    for start in range(max(0, end - 4 * KEYS), end, 97):
        yield row_versions(version_at(offset) for offset in range(start, min(start + 97, end)))


def build(writer: SegmentsWriter, name: str, end: int) -> None:
    building = writer.build(name)
    try:
        with closing(Base(building.files, SPECS[name])) as base:
            for versions in all_versions(end):
                base.add(versions)
            writer.take(building, base.finish(known(end).floors))
    except BaseException:
        writer.abandon(building)
        raise


def assert_right(view) -> None:
    """The table holds exactly what stands below its position, and the past that it promises."""
    end = end_of(view)
    for pin in (None, {0: max(0, end - KEPT // 2)}):
        newest = newest_below(end if pin is None else pin[0])
        found = view.lookup(pa.array(list(newest), pa.binary()), COLUMNS.names, pin=pin)
        rows = [row_at(offset) for offset in newest.values()]
        assert found.offset.to_pylist() == list(newest.values())
        assert found.values.to_pylist() == rows
        assert found.status.to_pylist() == [Status.DELETED if row is None else Status.HIT for row in rows]


def open_writer(directory: Path) -> tuple[SegmentsWriter, int]:
    """A writer that takes over from the one before, and the end of what was published; whole when it returns."""
    try:
        manifest = parse_manifest(directory, read_raw_manifest(directory))
        seq, end = manifest.seq, manifest.tables["left"].positions.get(0, 0)
    except Retryable:
        seq, end = Seq("a store", 0, 0), 0
    writer = SegmentsWriter(directory, SPECS, seq, dict.fromkeys(SPECS, known(end)), SystemClock(), tiers=TIERS)
    for name in writer.to_build:
        build(writer, name, end)
    return writer, end


def open_reader(directory: Path) -> SegmentsReader:
    return SegmentsReader(directory, SPECS)


def write_for_ever(directory: Path) -> None:
    writer, end = open_writer(directory)
    published = threading.Event()

    def merge() -> None:
        while True:
            published.wait()
            published.clear()
            while writer.merge():
                pass

    threading.Thread(target=merge, daemon=True).start()
    while True:
        start, end = end, end + 1 + end * 31 % 60
        counter = writer.seq.counter + 1
        writer.publish(writer.seq._replace(counter=counter), {name: change(start, end) for name in SPECS})
        print(counter, end, flush=True)  # noqa: T201 - the test reads it
        published.set()
        if counter % 25 == 0:
            build(writer, "right", end)


if __name__ == "__main__":
    write_for_ever(Path(sys.argv[1]))

"""Tables for the benchmarks of segments: made in columns, so that making them costs less than what is measured."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs import JsonDecoder
from stores.clock import SystemClock
from stores.protocol import KeyKind, TableSpec
from stores.segments import Base, Change, SegmentsWriter
from stores.table import ROW_VERSIONS, Seq

Numbers = npt.NDArray[np.int64]

COLUMNS = pa.schema([("plan", pa.string()), ("region", pa.string()), ("rps", pa.int32())])
SELECTED = COLUMNS.names
SPEC = TableSpec(COLUMNS, JsonDecoder(COLUMNS))
HISTORY = TableSpec(COLUMNS, JsonDecoder(COLUMNS), history_ms=3_600_000)
CIDR = TableSpec(COLUMNS, JsonDecoder(COLUMNS), key=KeyKind.CIDR)
BATCH = 10_000
_AT_A_TIME = 100_000


def keys_of(numbers: Numbers) -> pa.StringArray:
    return pc.binary_join_element_wise("user-", pa.array(numbers).cast(pa.string()), "")


def rows_of(numbers: Numbers) -> pa.StructArray:
    plan = pa.array(["free", "pro", "enterprise with support"]).take(pa.array(numbers % 3))
    region = pc.binary_join_element_wise("region-", pa.array(numbers % 50).cast(pa.string()), "")
    return pa.StructArray.from_arrays(
        [plan, region, pa.array((numbers % 1_000).astype(np.int32))], fields=list(COLUMNS)
    )


def values_of(numbers: Numbers) -> pa.BinaryArray:
    """The same rows as JSON."""
    plan, region, rps = rows_of(numbers).flatten()
    parts = ['{"plan":"', plan, '","region":"', region, '","rps":', rps.cast(pa.string()), "}", ""]
    return pc.binary_join_element_wise(*parts).cast(pa.binary())


def versions_of(
    keys: pa.Array, first_offset: int = 0, first_time: int = 0, values: pa.Array | None = None
) -> pa.RecordBatch:
    count = len(keys)
    places = [
        pa.array(np.zeros(count, np.int32)),
        *(pa.array(np.arange(count) + at) for at in (first_offset, first_time)),
    ]
    values = pa.nulls(count, pa.binary()) if values is None else values
    return pa.RecordBatch.from_arrays([keys.cast(pa.binary()), *places, values], schema=ROW_VERSIONS)


def pieces(count: int) -> Iterator[Numbers]:
    """The numbers below `count`, some at a time."""
    for start in range(0, count, _AT_A_TIME):
        yield np.arange(start, min(start + _AT_A_TIME, count))


def random_batches(count: int, batches: int, seed: int = 1) -> list[pa.StringArray]:
    random = np.random.default_rng(seed)
    return [keys_of(random.integers(0, count, BATCH)) for _ in range(batches)]


@contextmanager
def segments_directory() -> Iterator[Path]:
    # In memory, where readers find the pages of a store in use anyway: what is measured is not the disk.
    shared_memory = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
    with tempfile.TemporaryDirectory(
        prefix="enrich-bench-", dir=shared_memory if shared_memory.is_dir() else None
    ) as folder:
        yield Path(folder)


def open_writer(directory: Path, specs: Mapping[str, TableSpec]) -> SegmentsWriter:
    return SegmentsWriter(directory, specs, Seq("bench", 0, 0), {}, SystemClock())


def fill(writer: SegmentsWriter, table: str, count: int) -> None:
    """Gives a table a base of `count` rows."""
    with building(writer, table, count) as base:
        for numbers in pieces(count):
            base.add(versions_of(keys_of(numbers), int(numbers[0])), rows_of(numbers))


@contextmanager
def building(writer: SegmentsWriter, table: str, end: int, spec: TableSpec = SPEC) -> Iterator[Base]:
    """A base of everything below `end`, which readers see after the block."""
    writer.publish(next_seq(writer), {table: Change({0: end})})
    build = writer.build(table)
    with closing(Base(build.files, spec)) as base:
        yield base
        writer.take(build, base.finish({}))


def changed(numbers: Numbers, first_offset: int) -> Change:
    """New rows of these keys."""
    versions = versions_of(keys_of(numbers), first_offset)
    return Change({0: first_offset + len(numbers)}, {}, None, versions, rows_of(numbers + 1))


def update(writer: SegmentsWriter, numbers: Numbers, first_offset: int, tables: tuple[str, ...] = ("users",)) -> None:
    """Publishes new rows of these keys."""
    writer.publish(next_seq(writer), dict.fromkeys(tables, changed(numbers, first_offset)))


def next_seq(writer: SegmentsWriter) -> Seq:
    return writer.seq._replace(counter=writer.seq.counter + 1)

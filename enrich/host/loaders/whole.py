"""One whole read of a source: all its rows sorted by key, each key once, whatever the source returns."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from enrich.base.errors import ConfigError
from enrich.host.loaders.source import SOURCE_ROWS, RowSource
from stores.networks import parse_network
from stores.protocol import KeyKind
from stores.rocks.network_rows import network_key, network_text

LARGEST = 64 << 20
"""Bytes of keys and values. The agent holds a read in memory, and the rows that it compares it with (measured: 8 times
this)."""

_SAME_KEY = "have a key that another row has as well; the greatest row by its bytes is taken"


@dataclass(frozen=True, slots=True)
class WholeRead:
    rows: pa.Table
    """As `SOURCE_ROWS`, sorted by key."""
    left_out: Mapping[str, int]
    """How many rows were left out, by reason."""

    def digest(self) -> bytes:
        """The same for two reads exactly when they hold the same rows."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as stream:
            stream.write_table(self.rows)
        return hashlib.sha256(sink.getvalue()).digest()


def read_whole(
    source: RowSource, key: KeyKind, report: Callable[[int], None], stopping: Callable[[], bool]
) -> WholeRead:
    """Raises what the source raises; then none of its rows are used. `report` is called with the rows read so far."""
    batches: list[pa.RecordBatch] = []
    left_out: Counter[str] = Counter()
    count = size = 0
    for batch in source.batches(stopping):
        batches.append(batch.rows)
        left_out.update(batch.left_out)
        count += len(batch.rows)
        size += batch.rows.nbytes
        if size > LARGEST:
            raise ConfigError(
                f"the source has more than {LARGEST >> 20} MiB ({count:,} rows so far): too much to read repeatedly",
                next_step="let the sync service copy it into a compacted topic, and give the table that topic",
            )
        report(count)
    rows = pa.Table.from_batches(batches, SOURCE_ROWS)
    if key is KeyKind.CIDR:
        rows = rows.set_column(0, rows.schema.field(0), pa.array(map(_network, rows["key"].to_pylist()), pa.binary()))
    rows, repeated = _each_key_once(rows)
    if repeated:
        left_out[_SAME_KEY] += repeated
    return WholeRead(rows, dict(left_out))


def _each_key_once(rows: pa.Table) -> tuple[pa.Table, int]:
    """The rows sorted by key, and how many lost against another row of their key. The same row wins on every host."""
    if not len(rows):
        return rows, 0
    order = pc.sort_indices(rows, [("key", "ascending"), ("value", "ascending")])
    rows = rows.take(order).combine_chunks()
    keys, values = (rows.column(name).combine_chunks() for name in SOURCE_ROWS.names)
    same_key = pc.equal(keys[:-1], keys[1:])
    same_row = pc.and_(same_key, pc.equal(values[:-1], values[1:]))  # one row, seen twice
    repeated = (pc.sum(same_key).as_py() or 0) - (pc.sum(same_row).as_py() or 0)
    is_last = pa.concat_arrays([pc.invert(same_key), pa.array([True])])
    return rows.filter(is_last), repeated


def _network(key: bytes) -> bytes:
    """A network as the store writes it, to compare. Other text is returned unchanged: the store will refuse it."""
    try:
        return network_text(network_key(parse_network(key)))
    except ValueError:
        return key

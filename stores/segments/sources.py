"""Sources of segments: row versions in columns, in bounded chunks, from a publication or from disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from stores.segments.layout import NO_ROW
from stores.segments.loops.columns import ArrowColumn, Column
from stores.segments.loops.compiled import Bytes, Flags, Integers
from stores.table import ROW_VERSIONS


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some row versions in columns. Their keys are in `data`, their rows in `columns`."""

    data: Bytes
    starts: Integers
    lengths: Integers
    partitions: Integers
    offsets: Integers
    timestamps: Integers
    rows: Integers
    """`NO_ROW` for tombstones."""
    columns: Sequence[Column]
    split: Flags | None = None
    """Which keys are known to be in several partitions."""


class Source(Protocol):
    """Row versions that can be iterated more than once."""

    @property
    def versions(self) -> int:
        """The number of versions."""

    @property
    def key_bytes(self) -> int:
        """An upper bound of the bytes of all distinct keys."""

    def chunks(self) -> Iterator[Chunk]: ...


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch of `ROW_VERSIONS` with its values decoded: null rows are tombstones."""

    batch: pa.RecordBatch
    rows: pa.StructArray
    split: Flags | None = None

    @property
    def versions(self) -> int:
        return len(self.batch)

    @property
    def key_bytes(self) -> int:
        _, offsets = key_columns(self.batch.column("key"))
        return int(offsets[-1] - offsets[0])

    def chunks(self) -> Iterator[Chunk]:
        if not len(self.batch):
            return
        data, offsets = key_columns(self.batch.column("key"))
        partitions, places, timestamps = (
            self.batch.column(name).to_numpy().astype(np.int64) for name in ("partition", "offset", "timestamp")
        )
        has_row = self.rows.is_valid().to_numpy(zero_copy_only=False)
        yield Chunk(
            data,
            offsets[:-1],
            np.diff(offsets),
            partitions,
            places,
            timestamps,
            np.where(has_row, np.arange(len(has_row)), NO_ROW),
            [ArrowColumn(field.type, self.rows.field(index)) for index, field in enumerate(self.rows.type)],
            self.split,
        )


def key_columns(keys: pa.Array) -> tuple[Bytes, Integers]:
    """The bytes of binary keys, read-only, and their offsets: where each begins, and where the last one ends."""
    _, ends, data = keys.buffers()
    if ends is None or not len(keys):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    kind = np.int64 if pa.types.is_large_binary(keys.type) else np.int32
    offsets = np.frombuffer(ends, kind)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    content.flags.writeable = False  # so that the compiled loops always get the same type
    return content, offsets


KEYS_AND_PLACES = pa.schema([ROW_VERSIONS.field(name) for name in ("key", "partition", "offset", "timestamp")])
"""The columns of a row version that a segment needs, apart from its decoded row."""

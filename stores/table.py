"""The words of a table: row versions, their order, statuses, and what a look-up returns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import pyarrow as pa

Offsets = Mapping[int, int]
"""Partition -> offset. As a position or a pin: everything *below* the offset is meant."""

TIMESTAMP = pa.timestamp("ms", tz="UTC")

ROW_VERSIONS = pa.schema(
    [
        pa.field("key", pa.binary()),  # null: no version, but on its way to the quarantine
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),  # milliseconds, as Kafka has them
        pa.field("value", pa.binary()),  # null: a tombstone
    ]
)
"""A batch of row versions in columns: the form in which they reach an engine."""


class Status(IntEnum):
    """What became of one looked-up row. The numbers are stored in Arrow columns: never renumber."""

    HIT = 0
    MISS = 1
    DELETED = 2
    NULL_KEY = 3
    BAD_KEY = 4
    EXPIRED = 5
    STALE = 6


class Seq(NamedTuple):
    """Names a publication of a store: all up to it is visible at once, in all tables. Comparable within a store."""

    store: str
    generation: int
    counter: int


class RowVersion(NamedTuple):
    """One record of a table's topic. Offsets order versions inside one partition only."""

    key: bytes
    partition: int
    offset: int
    timestamp: int
    value: bytes | None


class HistoryFloor(NamedTuple):
    """From this offset and this time (milliseconds) on, the history of a partition is known to be whole."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Found:
    """The answers of one look-up, one for each key, in the order of the keys.

    `values` is null where there is no row: where the status is neither hit nor stale, and where it is stale but newer
    records may be all that is missing. The position (`partition`, `offset`, `timestamp`) is
    that of the version that answered, a tombstone's too, and null where no version did.
    """

    values: pa.StructArray
    status: pa.Int8Array
    partition: pa.Int32Array
    offset: pa.Int64Array
    timestamp: pa.TimestampArray


def row_versions(versions: Iterable[RowVersion]) -> pa.RecordBatch:
    """Row versions as a batch in columns."""
    columns = list(zip(*versions, strict=True)) or [()] * len(ROW_VERSIONS)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ROW_VERSIONS, strict=True)],
        schema=ROW_VERSIONS,
    )

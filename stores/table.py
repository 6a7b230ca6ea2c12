"""The data types of a table: row versions, their order, statuses, and the result of a look-up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import pyarrow as pa

Offsets = Mapping[int, int]
"""Partition -> offset. As a position or a pin it means everything *below* the offset."""

TIMESTAMP = pa.timestamp("ms", tz="UTC")

ROW_VERSIONS = pa.schema(
    [
        pa.field("key", pa.binary()),  # null: not a version; it will go to the quarantine
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),  # milliseconds, as Kafka has them
        pa.field("value", pa.binary()),  # null: a tombstone
    ]
)
"""The schema of batches of row versions that engines take."""


class Status(IntEnum):
    """The result for one looked-up key. The numbers are stored in Arrow columns: never renumber."""

    HIT = 0
    MISS = 1
    DELETED = 2
    NULL_KEY = 3
    BAD_KEY = 4
    EXPIRED = 5
    STALE = 6


class Seq(NamedTuple):
    """Identifies a publication of a store, which covers all tables. Comparable within a store."""

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
    """From this offset and this time (milliseconds) on, the history of a partition is known to be complete."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Found:
    """The answers of one look-up, one for each key, in the order of the keys.

    `values` is null if there is no row: if the status is neither hit nor stale, or if it is a stale miss or tombstone.
    The position (`partition`, `offset`, `timestamp`) is that of the version that answered, even of a tombstone, and
    null if no version did.
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

"""What a writer is told: the state of a table as its durable truth has it, and what a publication adds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from stores.table import HistoryFloor, Offsets


@dataclass(frozen=True)
class Known:
    """What the durable truth knows of a table at a seq, all of it."""

    positions: Offsets = field(default_factory=dict)
    floors: Mapping[int, HistoryFloor] = field(default_factory=dict)
    """Versions that no question above them can ask for go with the next merge."""
    complete_through: int | None = None
    load: int = field(default=0, kw_only=True)
    """Numbers the load that brought the rows on which publications were put since. Positions cannot tell two loads
    apart: a topic that was made again may have as many records as the one before it."""


@dataclass(frozen=True)
class Change(Known):
    """What a publication changes in one table, and the table's state after it."""

    versions: pa.RecordBatch | None = None
    """`ROW_VERSIONS`, keys as the table stores them (see `network_keys`); the values are not looked at."""
    rows: pa.StructArray | None = None
    """Their decoded values: null for a tombstone."""
    lost: str | None = None
    """Why nothing that the segments hold is of the table any more, so that it must be built before anybody reads it."""

"""The input of a writer: the state of a table in the store, and what a publication adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stores.segments.file import Written
from stores.segments.manifest import TableState
from stores.table import HistoryFloor, Offsets


@dataclass(frozen=True)
class Known:
    """The store's state of a table at a seq."""

    positions: Offsets = field(default_factory=dict)
    floors: Mapping[int, HistoryFloor] = field(default_factory=dict)
    """The next merge removes versions that no look-up above the floors can return."""
    complete_through: int | None = None
    buried: Offsets = field(default_factory=dict, kw_only=True)
    """Below these offsets the table need not know of deleted keys: a merge of all segments leaves such keys out."""
    load: int = field(default=0, kw_only=True)
    """The number of the load from which the rows come, with later publications on top. Positions do not distinguish two
    loads: a topic that was recreated may have as many records as the one before it."""

    def with_segments(self, segments: Sequence[Written]) -> TableState:
        return TableState(
            tuple(segments),
            dict(self.positions),
            dict(self.floors),
            self.complete_through,
            dict(self.buried),
            self.load,
        )


@dataclass(frozen=True)
class Change(Known):
    """What a publication changes in one table, and the table's state after it."""

    versions: pa.RecordBatch | None = None
    """`ROW_VERSIONS`, with keys as the table stores them (networks: see read/networks.py); the values are not used."""
    rows: pa.StructArray | None = None
    """Their decoded values: null for a tombstone."""
    lost: str | None = None
    """Why the segments are no longer valid at all, so that the table must be built before it can be read."""

"""The interface of all sources of loader tables: rows with the keys and values that a topic of the table would have."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

SOURCE_ROWS = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""Keys as look-ups ask for them, values in the table's format."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Some rows, and how many were left out, by reason: 'have no key'."""

    rows: pa.RecordBatch
    left_out: Mapping[str, int] = field(default_factory=dict)


class RowSource(Protocol):
    """Reads all rows of one table, in any order."""

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:
        """All rows that the source has now. It ends normally only after all of them.

        Raises Retryable if the source cannot be read now, or if `stopping` says so; ConfigError if the user has to
        change something. No message may contain a password or values of a row.
        """

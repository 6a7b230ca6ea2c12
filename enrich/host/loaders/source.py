"""What every source of a loader table is to the agent: rows as the table's topic would have them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

SOURCE_ROWS = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
"""Keys as look-ups ask for them, values in the table's format."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Some rows, and how many cannot be rows of a table, by the reason: 'have no key'."""

    rows: pa.RecordBatch
    left_out: Mapping[str, int] = field(default_factory=dict)


class RowSource(Protocol):
    """Reads all rows of one table, in any order."""

    def batches(self, stopping: Callable[[], bool]) -> Iterator[SourceBatch]:
        """What it has now. It ends normally only when it has given everything.

        Raises Retryable when it cannot be read now, or must end since `stopping` says so; ConfigError when the user
        has to change something. No message holds a password or what is in a row.
        """

"""How far the history of a table reaches back after its reader was away from the topic, or behind it.

While the reader is away, the topic's cleaner may remove a version that a later one hides, so the reader never sees it.
The cleaner ignores the active segment. So nothing is missing if the reader was at the partition's end a short
time ago (`TopicSettings.open_ms`), nor from the first record on that is younger than `min.compaction.lag.ms` now.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.table import HistoryFloor

CLOCKS_DIFFER_MS = 60_000
"""How far the compacting broker's clock may be ahead of this host's."""


@dataclass(frozen=True)
class Stretch:
    """What was read of a partition in one go, after the reader had been away from its end for too long."""

    end: int
    """Everything below is read."""
    is_at_end: bool
    """Whether the brokers said a short time ago that nothing came after it."""


def floors_over(
    stretches: Mapping[int, Stretch], versions: pa.RecordBatch, lag_ms: int, now_ms: int
) -> dict[int, HistoryFloor]:
    """From where on the history is whole after these stretches. `versions`: their records; `lag_ms`: the topic's
    min.compaction.lag.ms; `now_ms`: the clock after they were read."""
    floors = {}
    for partition, stretch in stretches.items():
        offsets, times = _records(versions, partition)
        proven = whole_since(lag_ms, now_ms, int(times.max(initial=0)))
        # The cleaner stops at the first record that is too young. Before it, it keeps the last record of each key.
        young = offsets[times > proven] if lag_ms else offsets[:0]
        if len(young) and young[0] == offsets[0]:
            continue
        if len(young):
            offset = int(young[0])
        elif len(offsets) or not stretch.is_at_end:
            # One more if records are still to come: one of them may have let the cleaner remove a version before `end`.
            offset = stretch.end + (not stretch.is_at_end)
        else:
            continue
        floors[partition] = HistoryFloor(offset, proven)
    return floors


def whole_since(lag_ms: int, now_ms: int, newest_ms: int) -> int:
    """Records with a later time are not compacted yet, and have not let the cleaner remove earlier ones.

    `newest_ms`: the latest record time that was read, by the producers' clocks. The result is never later than both
    that and now.
    """
    read_ms = max(now_ms, min(newest_ms, now_ms + CLOCKS_DIFFER_MS))
    return min(now_ms - lag_ms + CLOCKS_DIFFER_MS, read_ms) if lag_ms else read_ms


def _records(versions: pa.RecordBatch, partition: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets and times, in the order of the offsets."""
    offsets, times = (
        versions.column(name).to_numpy()[versions.column("partition").to_numpy() == partition]
        for name in ("offset", "timestamp")
    )
    order = np.argsort(offsets)
    return offsets[order], times[order]

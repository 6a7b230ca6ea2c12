"""How far the history of a table reaches back after it was away from its topic, or behind it.

While nobody reads, the topic's cleaner may remove a version that a later one hides; whoever reads on then never hears
of it. The later one was no longer in the segment that is being written. So nothing is missing where the reader was at
the partition's end a short time ago (`TopicSettings.open_ms`); nor from the first record on that is younger than
`min.compaction.lag.ms` now.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores.table import HistoryFloor

CLOCKS_DIFFER_MS = 60_000
"""How much later it may be for the broker that compacts than for this host."""


@dataclass(frozen=True)
class Stretch:
    """What was read of a partition at once, after the reader had not been at its end for too long."""

    end: int
    """Everything below is read."""
    is_at_end: bool
    """Nothing came after it, when the brokers said so a short time ago."""


def floors_over(
    stretches: Mapping[int, Stretch], versions: pa.RecordBatch, lag_ms: int, now_ms: int
) -> dict[int, HistoryFloor]:
    """From where on the history is whole after these stretches, of which these are the records. `lag_ms`: the topic's
    min.compaction.lag.ms; `now_ms`: the clock once they were read."""
    floors = {}
    for partition, stretch in stretches.items():
        offsets, times = _records(versions, partition)
        proven = whole_since(lag_ms, now_ms, int(times.max(initial=0)))
        # The cleaner stops at the first record that is too young, and of each key it leaves the last one before that.
        young = offsets[times > proven] if lag_ms else offsets[:0]
        if len(young) and young[0] == offsets[0]:
            continue
        if len(young):
            offset = int(young[0])
        elif len(offsets) or not stretch.is_at_end:
            # One more where records are to come: a version before the end may be missing on account of one of those.
            offset = stretch.end + (not stretch.is_at_end)
        else:
            continue
        floors[partition] = HistoryFloor(offset, proven)
    return floors


def whole_since(lag_ms: int, now_ms: int, newest_ms: int) -> int:
    """What is later is not removed yet, nor anything on its account.

    `newest_ms`: the latest time of what was read, by the clocks of those who write. The answer is never later than
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

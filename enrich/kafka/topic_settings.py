"""What a topic's configuration promises to whoever keeps a copy of it."""

from collections.abc import Mapping
from dataclasses import dataclass

_SAFE_SHARE = 0.5
"""Of delete.retention.ms. The rest is for clocks that differ and for catching up."""
_READING_SHARE = 0.9
"""Of delete.retention.ms, for one reading of the topic: its length is measured by one clock."""
_SOONEST_MS, _LATEST_MS = 5_000, 60_000
"""The cleaner leaves the segment alone that is being written. It is closed after segment.ms, but also when it is full:
no longer than the latter is counted on. Sooner than the former no cleaner comes to it."""


@dataclass(frozen=True)
class TopicSettings:
    """The settings of a compacted topic that decide what a reader may miss. The defaults are Kafka's own."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 86_400_000
    """How long a tombstone stays after it was compacted: who is away for longer never learns of the deletion."""
    min_compaction_lag_ms: int = 0
    """Younger records are never compacted away."""
    segment_ms: int = 604_800_000

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "TopicSettings":
        """From what `Topics.settings` answers."""
        default = cls()
        return cls(
            frozenset(word.strip() for word in settings.get("cleanup.policy", "delete").split(",")),
            int(settings.get("delete.retention.ms", default.delete_retention_ms)),
            int(settings.get("min.compaction.lag.ms", default.min_compaction_lag_ms)),
            int(settings.get("segment.ms", default.segment_ms)),
        )

    @property
    def open_ms(self) -> int:
        """For so long after it was written a record stands in the segment that is being written, whatever its time."""
        return min(max(self.segment_ms, _SOONEST_MS), _LATEST_MS)

    @property
    def untouched_ms(self) -> int:
        """For so long after a record was written, the cleaner removes nothing on its account: neither an older record
        of its key nor, if it is a tombstone, itself."""
        return max(self.min_compaction_lag_ms, self.open_ms)

    @property
    def safe_lag_ms(self) -> float:
        """Who follows the topic and is behind for longer may have missed a tombstone."""
        return max(self.safe_absence_ms, self.open_ms)

    @property
    def safe_reading_ms(self) -> float:
        """Who reads the topic from its start, and for longer, may have missed a tombstone of a key that it has read."""
        return max(self.delete_retention_ms * _READING_SHARE, self.open_ms)

    @property
    def safe_absence_ms(self) -> float:
        """Who was away for longer may have missed a tombstone."""
        return self.delete_retention_ms * _SAFE_SHARE

    @property
    def is_compacted_only(self) -> bool:
        """With `delete` beside `compact` records vanish by age, and nobody who keeps a copy hears of it."""
        return self.cleanup_policy == {"compact"}

"""What the configuration of a topic guarantees to readers that keep a copy of it."""

from collections.abc import Mapping
from dataclasses import dataclass

_OVERHEAD, _LARGEST_DEFAULT = 1_000, 1_000_000
_SAFE_SHARE = 0.5
"""Share of delete.retention.ms. The rest is for clock differences and for catching up."""
_READING_SHARE = 0.9
"""Share of delete.retention.ms for one reading of the topic, whose length is measured by one clock."""
_SOONEST_MS, _LATEST_MS = 5_000, 60_000
"""Bounds for `open_ms`. The cleaner does not touch the active segment. That is rolled after segment.ms, or earlier when
it is full: so no more than `_LATEST_MS` is assumed. And no cleaner gets to a segment sooner than `_SOONEST_MS`."""


def is_compacted(settings: Mapping[str, str]) -> bool:
    """From the answer of `Topics.settings`; also of a topic that is deleted by age as well."""
    return "compact" in settings.get("cleanup.policy", "")


@dataclass(frozen=True)
class TopicSettings:
    """The settings of a compacted topic that decide what a reader may miss. The defaults are Kafka's."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 86_400_000
    """How long a tombstone stays after compaction: a reader that is away for longer may miss the deletion."""
    min_compaction_lag_ms: int = 0
    """Younger records are never compacted."""
    segment_ms: int = 604_800_000

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "TopicSettings":
        """From the answer of `Topics.settings`."""
        default = cls()
        return cls(
            frozenset(word.strip() for word in settings.get("cleanup.policy", "delete").split(",")),
            int(settings.get("delete.retention.ms", default.delete_retention_ms)),
            int(settings.get("min.compaction.lag.ms", default.min_compaction_lag_ms)),
            int(settings.get("segment.ms", default.segment_ms)),
        )

    @property
    def open_ms(self) -> int:
        """How long a record is at least in the active segment after it was written, whatever its timestamp."""
        return min(max(self.segment_ms, _SOONEST_MS), _LATEST_MS)

    @property
    def untouched_ms(self) -> int:
        """How long after a record was written the cleaner removes nothing because of it: neither an older record of its
        key nor, if it is a tombstone, the record itself."""
        return max(self.min_compaction_lag_ms, self.open_ms)

    @property
    def safe_lag_ms(self) -> float:
        """A reader that follows the topic and is behind for longer may have missed a tombstone."""
        return max(self.safe_absence_ms, self.open_ms)

    @property
    def safe_reading_ms(self) -> float:
        """A reader that takes longer to read the topic from its start may have missed a tombstone of a key it read."""
        return max(self.delete_retention_ms * _READING_SHARE, self.open_ms)

    @property
    def safe_absence_ms(self) -> float:
        """A reader that was away for longer may have missed a tombstone."""
        return self.delete_retention_ms * _SAFE_SHARE

    @property
    def is_compacted_only(self) -> bool:
        """False with `delete` beside `compact`: then records vanish by age, and readers with a copy do not notice."""
        return self.cleanup_policy == {"compact"}


def largest_row(connection: Mapping[str, object], settings: Mapping[str, str]) -> int:
    """Most bytes of key and value together that the topic takes, with room for what Kafka adds. Less, if the
    configuration of our producer says so: it has to be `sized` for the topic."""
    theirs = int(settings.get("max.message.bytes", _LARGEST_DEFAULT))
    return min(theirs, int(str(connection.get("message.max.bytes", theirs)))) - _OVERHEAD

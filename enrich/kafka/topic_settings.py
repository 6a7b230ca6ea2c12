"""What a topic's configuration promises to whoever keeps a copy of it."""

from collections.abc import Mapping
from dataclasses import dataclass

_SAFE_SHARE = 0.5
"""Of delete.retention.ms. The rest is for clocks that differ and for catching up."""


@dataclass(frozen=True)
class TopicSettings:
    """The settings of a compacted topic that decide what a reader may miss. The defaults are Kafka's own."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 86_400_000
    """How long a tombstone stays after it was compacted: who is away for longer never learns of the deletion."""
    min_compaction_lag_ms: int = 0
    """Younger records are never compacted away."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "TopicSettings":
        """From what `Topics.settings` answers."""
        default = cls()
        return cls(
            frozenset(word.strip() for word in settings.get("cleanup.policy", "delete").split(",")),
            int(settings.get("delete.retention.ms", default.delete_retention_ms)),
            int(settings.get("min.compaction.lag.ms", default.min_compaction_lag_ms)),
        )

    @property
    def safe_absence_ms(self) -> float:
        """Who was away for longer may have missed a tombstone."""
        return self.delete_retention_ms * _SAFE_SHARE

    @property
    def is_compacted_only(self) -> bool:
        """With `delete` beside `compact` records vanish by age, and nobody who keeps a copy hears of it."""
        return self.cleanup_policy == {"compact"}

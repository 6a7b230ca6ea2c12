"""What the topics that a stage writes to take."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """How large the records of a topic may be, in bytes, and which topics take none without a key."""

    sink: int = 1_000_000
    """Of every topic of events that is not named below."""
    dlq: int = 1_000_000
    writeback: int = 1_000_000
    outputs: Mapping[str, int] = field(default_factory=dict)
    compacted: frozenset[str] = frozenset()
    """Topics of events. A broker refuses a record without a key there, and would with every repetition."""

    @property
    def most(self) -> int:
        return max(self.sink, self.dlq, *self.outputs.values())

    @property
    def least(self) -> int:
        return min(self.sink, self.dlq, *self.outputs.values())

    def of(self, topic: str) -> int:
        """For a topic that events go to."""
        return self.outputs.get(topic, self.sink)

"""What the checkpoint of a realtime stage keeps. Its offsets are in the consumer group; here it says that they must be
there, so that a lost group is noticed."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol
from uuid import uuid4

from enrich.base.errors import WouldLoseData
from enrich.stage.progress.source_topics import Position
from enrich.stage.realtime.assignment import Partition

MARK = "enrich-realtime"
"""The text in the checkpoint."""


class Texts(Protocol):
    """The part of a checkpoint that is needed here."""

    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...


@dataclass(frozen=True)
class Mark:
    """Made by the first start."""

    id: str = field(default_factory=lambda: str(uuid4()))
    """What tallies are told by."""
    begins: Mapping[str, Mapping[str, int]] | None = None
    """The offsets at which the stage begins, until the group has some."""
    known: Mapping[str, int] = field(default_factory=dict)
    """How many partitions of each topic the group has offsets of."""

    @classmethod
    def read(cls, checkpoint: Texts) -> "Mark | None":
        text = checkpoint.read(MARK)
        return None if text is None else cls(**json.loads(text))

    @classmethod
    def first(cls, begins: Position) -> "Mark":
        offsets = {topic: {str(n): offset for n, offset in each.items()} for topic, each in begins.items()}
        return cls(begins=offsets)

    @property
    def first_offsets(self) -> Position:
        return {
            topic: {int(partition): offset for partition, offset in each.items()}
            for topic, each in (self.begins or {}).items()
        }

    def keep_with(self, checkpoint: Texts) -> None:
        if Mark.read(checkpoint) != self:
            checkpoint.write(MARK, json.dumps(asdict(self)))

    def begun(self, partitions: Mapping[str, Sequence[int]]) -> "Mark":
        """Once the group has offsets of these."""
        return replace(self, begins=None, known={topic: len(each) for topic, each in sorted(partitions.items())})

    def require_in(self, committed: Collection[Partition], group: str, stage: str) -> None:
        """Raises WouldLoseData if the group has lost offsets."""
        for topic, count in self.known.items():
            lost = [number for number in range(count) if (topic, number) not in committed]
            if lost:
                raise WouldLoseData(
                    f"the group {group} has no offsets any more of {len(lost)} of {count} partitions, which it had",
                    where=f"topic {topic}",
                    next_step="brokers forget the offsets of a group after some days without commits: restore them; or "
                    f"delete the checkpoint of {stage}, and choose where to go on with --from",
                )

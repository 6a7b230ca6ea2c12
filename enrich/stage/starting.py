"""Where a stage begins: after its checkpoint, or, at its first start, with the oldest event."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from enrich.errors import ConfigError, WouldLoseData
from enrich.stage.progress import StageProgress, group_of

_WORDS = ("earliest", "latest", "group")


@dataclass(frozen=True)
class From:
    """What a user chose with --from: one of the words, or a time."""

    word: str | None = None
    time_ms: int | None = None

    @classmethod
    def parse(cls, text: str) -> "From":
        """Raises ConfigError for what is neither."""
        if text in _WORDS:
            return cls(word=text)
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise ConfigError(
                f"expected {', '.join(_WORDS)} or a time such as 2026-11-21T10:00:00Z, got {text}", where="--from"
            ) from None
        return cls(time_ms=round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))


def starting_options(
    stage: str, topic: str, partitions: list[int], *, has_progress: bool, progress: StageProgress, chosen: From | None
) -> dict[str, str]:
    """Options for Spark's Kafka source.

    Raises WouldLoseData when the stage ran before and its checkpoint is gone, and ConfigError for a choice that a
    checkpoint rules out.
    """
    if has_progress:
        if chosen is not None:
            raise ConfigError(
                "--from is for a start without a checkpoint, and this stage has one",
                where=f"stages.{stage}.checkpoint",
                next_step="leave --from out; or delete the checkpoint first, if events may be repeated or left out",
            )
        return {"startingOffsets": "earliest"}  # Spark goes on where the checkpoint says
    committed = progress.committed(topic, partitions)
    if chosen is None:
        if committed:
            raise WouldLoseData(
                f"the stage ran before, as its group {group_of(stage)} says, but its checkpoint is gone or empty",
                where=f"stages.{stage}.checkpoint",
                next_step="restore the checkpoint, or choose where to go on: --from group (nothing is left out, some "
                "events may be repeated), earliest, latest or a time",
            )
        return {"startingOffsets": "earliest"}
    if chosen.time_ms is not None:
        return {"startingTimestamp": str(chosen.time_ms), "startingOffsetsByTimestampStrategy": "latest"}
    if chosen.word != "group":
        return {"startingOffsets": str(chosen.word)}
    if not committed:
        raise ConfigError(f"the group {group_of(stage)} has no offsets of {topic}", where="--from group")
    # -2: Spark's word for the oldest event of a partition that the group does not know.
    offsets = {str(partition): committed.get(partition, -2) for partition in partitions}
    return {"startingOffsets": json.dumps({topic: offsets})}

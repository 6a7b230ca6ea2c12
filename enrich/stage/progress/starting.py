"""Where a stage starts to read: after its checkpoint, or, at its first start, with the oldest event."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from enrich.base.errors import ConfigError, WouldLoseData
from enrich.kafka import Topics
from enrich.stage.progress.group import StageProgress
from enrich.stage.progress.source_topics import BEGINNING, Position

_log = logging.getLogger(__name__)

_WORDS = ("earliest", "latest", "group")
_ANOTHER_GROUP = "group:"


class Texts(Protocol):
    """The part of a checkpoint that is needed here."""

    def batches(self, name: str) -> list[int]: ...
    def delete(self, name: str) -> None: ...


@dataclass(frozen=True)
class From:
    """What a user chose with --from: one of the words, another group, or a time."""

    word: str | None = None
    time_ms: int | None = None
    group: str | None = None

    @classmethod
    def parse(cls, text: str) -> "From":
        """Raises ConfigError for anything else."""
        if text in _WORDS:
            return cls(word=text)
        if text.startswith(_ANOTHER_GROUP) and text != _ANOTHER_GROUP:
            return cls(word="group", group=text.removeprefix(_ANOTHER_GROUP))
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise ConfigError(
                f"expected {', '.join(_WORDS)}, group:NAME or a time such as 2026-11-21T10:00:00Z, got {text}",
                where="--from",
            ) from None
        time_ms = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
        # To the brokers negative times are numbers of their own: -1 is the end of a topic.
        return cls(word="earliest") if time_ms < 0 else cls(time_ms=time_ms)


def starting_options(
    stage: str,
    topics: Mapping[str, list[int]],
    *,
    has_progress: bool,
    progress: StageProgress,
    chosen: From | None,
    kept: Callable[[Position], None] = lambda _: None,
) -> dict[str, str]:
    """Options for Spark's Kafka source. `topics`: their partitions. `kept`: raises WouldLoseData if the brokers lost
    events after these offsets.

    Raises WouldLoseData if the stage ran before and its checkpoint is gone, and ConfigError if there is both a
    checkpoint and a choice.
    """
    if has_progress:
        refuse_choice(stage, chosen)
        return {"startingOffsets": "earliest"}  # Spark continues from the checkpoint
    committed = _found(progress.committed, topics)
    if chosen is None:
        if committed:
            raise WouldLoseData(
                f"the stage ran before, as its group {progress.group} says, but its checkpoint is gone or empty",
                where=f"stages.{stage}.checkpoint",
                next_step="restore the checkpoint, or choose where to go on: --from group (nothing is left out, some "
                "events may be repeated), earliest, latest or a time",
            )
        # Earlier releases read one topic only.
        if len(topics) == 1 and any(progress.committed_before(*each)[0] for each in topics.items()):
            _log.warning(
                "the stage begins with the oldest event; but the group of earlier releases has offsets of this topic: "
                "if it was this stage's, and not another pipeline's, start from them instead",
                extra={"group": progress.older_group, "next": f"--from group:{progress.older_group}"},
            )
        return {"startingOffsets": "earliest"}
    if chosen.time_ms is not None:
        return {"startingTimestamp": str(chosen.time_ms), "startingOffsetsByTimestampStrategy": "latest"}
    if chosen.word != "group":
        return {"startingOffsets": str(chosen.word)}
    group = chosen.group or progress.group
    if chosen.group is not None:
        committed = _found(partial(progress.committed_by, group), topics)
    if not committed:
        raise ConfigError(
            f"the group {group} has no offsets of {', '.join(topics)}",
            where="--from group",
            next_step="choose earliest, latest, a time, or the group that has them: --from group:NAME "
            f"(earlier releases used {progress.older_group}, for all pipelines)",
        )
    kept(committed)
    # -2: Spark's number for the oldest event, of a partition for which the group has no offset.
    offsets = {
        topic: {str(partition): committed.get(topic, {}).get(partition, -2) for partition in partitions}
        for topic, partitions in topics.items()
    }
    return {"startingOffsets": json.dumps(offsets)}


def starts_from_own_group(chosen: From | None) -> bool:
    return chosen is not None and chosen.word == "group" and chosen.group is None


def refuse_choice(stage: str, chosen: From | None) -> None:
    """Of a stage that has a checkpoint. Raises ConfigError."""
    if chosen is not None:
        raise ConfigError(
            "--from is for a start without a checkpoint, and this stage has one",
            where=f"stages.{stage}.checkpoint",
            next_step="leave --from out; or delete the checkpoint first, if events may be repeated or left out",
        )


def begin_as_chosen(checkpoint: Texts, stage: str, chosen: From | None) -> None:
    """Forgets where a query that ended before its first batch would have begun: Spark would obey that, and not the
    choice. No other driver may run. Raises ConfigError if one has done a batch meanwhile."""
    if chosen is None:
        return
    if checkpoint.batches("offsets"):
        refuse_choice(stage, chosen)
    checkpoint.delete(BEGINNING)


def first_offsets(options: Mapping[str, str], topics: Topics, topic: str) -> Mapping[int, int]:
    """What these options say of a topic, as Spark understands them."""
    first, oldest = options.get("startingOffsets"), topics.start_offsets(topic)
    if first is None:
        return topics.offsets_at(topic, int(options["startingTimestamp"]))
    if first == "earliest":
        return oldest
    if first == "latest":
        return topics.end_offsets(topic)
    given: Mapping[str, int] = json.loads(first)[topic]
    return {number: oldest[number] if given[str(number)] < 0 else given[str(number)] for number in oldest}


def _found(committed: Callable[[str, list[int]], dict[int, int]], topics: Mapping[str, list[int]]) -> Position:
    """The committed offsets, without the topics that have none."""
    offsets = {topic: committed(topic, partitions) for topic, partitions in topics.items()}
    return {topic: each for topic, each in offsets.items() if each}

"""Topics that a source has got since its checkpoint was written. They are read from their beginning.

Spark does so by itself, but only from offset 0: where retention has deleted the oldest events it takes the others for
lost ones, and fails. Then the beginning is entered in its record of the last batch, as if that batch had read nothing
of the topic. If the batch has to be repeated, it is entered in the record of where the batch begins, too.

Where a query was killed before its first batch, its only record is of the offsets at which it begins. Spark would hold
on to it, and fail if one of those topics is not read any more.
"""

import json
from collections.abc import Callable, Collection, Mapping

from enrich.base.errors import ConfigError
from enrich.stage.progress.source_topics import BEGINNING, Position, Texts, last_planned, offsets_in

First = Callable[[str], Mapping[int, int]]
"""The first offsets that the brokers have of a topic."""


def enter_added(checkpoint: Texts, topics: Collection[str], first: First, *, is_pinned: bool) -> None:
    """No other driver may run. `is_pinned`: a batch that is repeated has a pin, which stands for its offsets.

    Raises ConfigError if such a batch has to be repeated: its records must stay as they are.
    """
    planned = checkpoint.batches("offsets")
    if not planned:
        _correct_beginning(checkpoint, topics, first)
        return
    firsts = {topic: first(topic) for topic in sorted(set(topics) - last_planned(checkpoint).keys())}
    entered = {topic: offsets for topic, offsets in firsts.items() if any(offsets.values())}
    if not entered:
        return
    if planned[-1] not in checkpoint.batches("commits"):
        if is_pinned:
            raise ConfigError(
                "the stage was killed in a batch, which has to be repeated before the topics "
                f"{', '.join(entered)} can be added, of which the oldest events are deleted",
                where=f"topic {next(iter(entered))}",
                next_step="run the stage once more without them, and end it by `enrich stop` or SIGTERM",
            )
        # First: with the other one alone, the next start would take the topics for known ones.
        _enter(checkpoint, BEGINNING if len(planned) == 1 else f"offsets/{planned[-2]}", entered)
    _enter(checkpoint, f"offsets/{planned[-1]}", entered)


def _correct_beginning(checkpoint: Texts, topics: Collection[str], first: First) -> None:
    text = checkpoint.read(BEGINNING)
    if text is None:
        return
    recorded = offsets_in(text)
    if recorded.keys() != set(topics):
        added = {topic: first(topic) for topic in sorted(set(topics) - recorded.keys())}
        kept = {topic: offsets for topic, offsets in recorded.items() if topic in topics}
        _rewrite(checkpoint, BEGINNING, {**kept, **added})


def _enter(checkpoint: Texts, name: str, entered: Position) -> None:
    _rewrite(checkpoint, name, {**offsets_in(checkpoint.read(name) or ""), **entered})


def _rewrite(checkpoint: Texts, name: str, position: Position) -> None:
    *before, _ = (checkpoint.read(name) or "").rstrip("\n").split("\n")
    offsets = {
        topic: {str(partition): offset for partition, offset in each.items()} for topic, each in position.items()
    }
    checkpoint.write(name, "\n".join([*before, json.dumps(offsets, separators=(",", ":"))]))

"""Topics that a source has got since its checkpoint was written. They are read from their beginning.

Spark does so by itself, but only from offset 0: where retention has deleted the oldest events it takes the others for
lost ones, and fails. Then the beginning is entered in its record of the last batch, as if that batch had read nothing
of the topic. If the batch has to be repeated, it is entered in the record of where the batch begins, too.

Where a query was killed before its first batch, its only record is of the offsets at which it begins. Spark would hold
on to it, and fail if one of those topics is not read any more.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping

from enrich.base.errors import EnrichError, Retryable, WouldLoseData
from enrich.stage.progress.source_topics import (
    BEGINNING,
    Position,
    Texts,
    last_planned,
    offsets_in,
    record_of_position,
)

First = Callable[[str], Mapping[int, int]]
"""The first offsets that the brokers have of a topic."""
_BEGINS_LATE = re.compile(r"Added partition (\S+)-(\d+) starts from (\d+) instead of 0")


def enter_added(checkpoint: Texts, topics: Collection[str], first: First, *, is_pinned: bool) -> None:
    """No other driver may run. `is_pinned`: a batch that is repeated has a pin, which stands for its offsets.

    Raises WouldLoseData if such a batch has to be repeated: its records must stay as they are.
    """
    planned = checkpoint.batches("offsets")
    if not planned:
        _correct_beginning(checkpoint, topics, first)
        return
    end = f"offsets/{planned[-1]}"
    begin = record_of_position(checkpoint)
    text = checkpoint.read(begin)
    if text is None:
        return  # Spark says why it cannot go on
    firsts = {topic: first(topic) for topic in sorted(set(topics) - offsets_in(text).keys())}
    entered = {topic: offsets for topic, offsets in firsts.items() if any(offsets.values())}
    if not entered:
        return
    if begin != end:
        if is_pinned:
            raise WouldLoseData(
                f"the oldest events of the topics {', '.join(entered)}, which are new, are deleted; to begin with the "
                "others, the batch that has to be repeated would get other answers than before",
                where=f"topic {next(iter(entered))}",
                next_step="accept other answers for this one batch: --new-pin",
            )
        # Before the batch's beginning: with that one alone, the next start would take the topics for known ones.
        ends = last_planned(checkpoint)
        _enter(checkpoint, end, {topic: _not_before(each, ends.get(topic, {})) for topic, each in entered.items()})
    _enter(checkpoint, begin, entered)


def _not_before(first: Mapping[int, int], end: Mapping[int, int]) -> Mapping[int, int]:
    return {partition: max(offset, end.get(partition, 0)) for partition, offset in first.items()}


def begins_late(text: str, known: Collection[str]) -> EnrichError | None:
    """What Spark's message means if it is of a partition that appeared while the query ran, without its oldest events;
    None for other messages. `known`: the topics that the query began with."""
    found = _BEGINS_LATE.search(text)
    if found is None:
        return None
    topic, partition, offset = found.groups()
    if topic in known:
        return new_partition_lost(topic, int(partition), int(offset))
    return Retryable(
        f"the source has a further topic whose oldest {offset} events are deleted: a running query cannot begin there",
        where=f"topic {topic}, partition {partition}",
        next_step="start the stage again: it then begins with the oldest events that there are",
    )


def new_partition_lost(topic: str, partition: int, first: int) -> WouldLoseData:
    """Of a topic that the stage has read before. `first`: the partition's first offset."""
    return WouldLoseData(
        f"the brokers have deleted {first} events of a new partition that were not read yet",
        where=f"topic {topic}, partition {partition}",
        next_step="give the topic a longer retention; to go on with the oldest events that there are, move the "
        "checkpoint away and start with --from group",
    )


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

"""Which letters a command is about: those that are there, and of them a selection."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from enrich.admin.census import Census, newest_of
from enrich.admin.cluster import Cluster
from enrich.admin.reading import Tell, batches_of, silent
from enrich.admin.rejected.letter import Letter, letter_of
from enrich.base.errors import ConfigError
from enrich.config import Pipeline


@dataclass(frozen=True)
class Selection:
    """All letters that match everything that is given."""

    names: frozenset[str] = frozenset()
    """Of letters, or places: all letters of the record that stood there."""
    reason: str | None = None
    """A part of the reason."""
    stage: str | None = None

    @property
    def is_empty(self) -> bool:
        return not self.names and self.reason is None and self.stage is None

    def has(self, letter: Letter) -> bool:
        return (
            (not self.names or letter.name in self.names or letter.place in self.names)
            and (self.reason is None or self.reason in letter.reason)
            and (self.stage is None or self.stage == letter.stage)
        )


ALL = Selection()


def dlqs_of(pipeline: Pipeline) -> list[str]:
    """The pipeline's topics for dead letters."""
    routes = {} if pipeline.sync is None else pipeline.sync.writeback
    stages = [stage.dlq for stage in pipeline.stages.values() if stage.dlq is not None]
    return list(dict.fromkeys([*stages, *(route.dlq for route in routes.values())]))


def chosen_dlqs(pipeline: Pipeline, given: Collection[str]) -> list[str]:
    """Those that are named, or all. Raises ConfigError for another topic, whose records might be somebody's data."""
    known = dlqs_of(pipeline)
    for name in given:
        if name not in known:
            raise ConfigError(
                f"the pipeline has no DLQ `{name}`",
                next_step=f"choose from {', '.join(known) or 'none: it has no DLQ'}",
            )
    return list(given) or known


def _pass_over(_: Message) -> None:
    """A record that is none of ours."""


def letters(
    cluster: Cluster,
    dlq: str,
    selection: Selection = ALL,
    tell: Tell = silent,
    *,
    other: Callable[[Message], None] = _pass_over,
) -> Iterator[Letter]:
    """The letters that stand in the DLQ now: of each name the newest, unless it was purged or replayed.

    `other` hears of records that are no letters: somebody else's, or of an older form. The topic is read twice, so that
    no more than a few bytes a letter are held.
    """
    if not cluster.topics.exists(dlq):
        return
    starts, ends = cluster.topics.start_offsets(dlq), cluster.topics.end_offsets(dlq)
    census = Census(whole=True)
    for batch in batches_of(cluster, dlq, tell, starts=starts, ends=ends):
        census.add(batch)
    rows = census.rows()
    live = rows[newest_of(rows) & ~rows["is_tombstone"]] if len(rows) else rows
    if not len(live) and not census.null_keys:
        return
    offsets = {int(p): np.sort(live["offset"][live["partition"] == p]) for p in np.unique(live["partition"])}
    for batch in batches_of(cluster, dlq, tell, starts=starts, ends=ends):
        for message in batch:
            if message.key() is None:
                other(message)
                continue
            known = offsets.get(message.partition() or 0)
            if known is None or message.value() is None:
                continue
            place = int(np.searchsorted(known, message.offset() or 0))
            if place < len(known) and known[place] == message.offset():
                letter = letter_of(dlq, message)
                if letter is None:
                    other(message)
                elif selection.has(letter):
                    yield letter

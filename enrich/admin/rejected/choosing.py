"""The dead letters that a command works on: those in the DLQs, filtered by a selection."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from enrich.admin.census import Census, newest_of
from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, batches_of, silent
from enrich.admin.rejected.letter import Letter, letter_of
from enrich.admin.rights import lacks
from enrich.base.errors import ConfigError
from enrich.config import Invalid, Pipeline


@dataclass(frozen=True)
class Selection:
    """Selects the letters that match all given criteria."""

    names: frozenset[str] = frozenset()
    """Names of letters, or TOPIC/PARTITION/OFFSET of a record: selects all letters of that record."""
    reason: str | None = None
    """A substring of the reason."""
    stage: str | None = None
    pipeline: str | None = None
    """Whose stage that is: another pipeline with this DLQ may have one of the same name. None: anybody's."""

    @property
    def is_empty(self) -> bool:
        return not self.names and self.reason is None and self.stage is None

    def has(self, letter: Letter) -> bool:
        return (
            (not self.names or letter.name in self.names or letter.origin in self.names)
            and (self.reason is None or self.reason in letter.reason)
            and (self.stage is None or (self.stage == letter.stage and self._is_of_pipeline(letter)))
        )

    def _is_of_pipeline(self, letter: Letter) -> bool:
        # Letters of earlier releases do not say it.
        return self.pipeline is None or letter.sender.partition(".")[0] in ("", self.pipeline)


ALL = Selection()


def dlqs_of(pipeline: Pipeline) -> list[str]:
    """The pipeline's DLQ topics."""
    routes = {} if pipeline.sync is None else pipeline.sync.writeback
    stages = [stage.dlq for stage in pipeline.stages.values() if stage.dlq is not None]
    ingest = [entry.dlq for entry in pipeline.ingest.values() if entry.invalid is Invalid.dlq]
    delivered = [route.dlq for route in pipeline.expel.values()]
    return list(dict.fromkeys([*ingest, *stages, *(route.dlq for route in routes.values()), *delivered]))


def chosen_dlqs(pipeline: Pipeline, given: Collection[str]) -> list[str]:
    """The named DLQs, or all. Raises ConfigError for any other topic, whose records might be somebody's data."""
    known = dlqs_of(pipeline)
    for name in given:
        if name not in known:
            raise ConfigError(
                f"the pipeline has no DLQ `{name}`",
                next_step=f"choose from {', '.join(known) or 'none: it has no DLQ'}",
            )
    return list(given) or known


def is_there(cluster: Cluster, dlq: str) -> bool:
    """Whether there is such a topic. Raises ConfigError if this user may not see it: it may be full of letters."""
    if cluster.topics.exists(dlq):
        return True
    if cluster.topics.is_hidden(dlq):
        error = lacks("DESCRIBE", f"topic {dlq}")
        error.next_step = f"{error.next_step}; or choose others with --dlq"
        raise error
    return False


def _ignore(_: Message) -> None:
    """For records that are no letters."""


def letters(
    cluster: Cluster,
    dlq: str,
    selection: Selection = ALL,
    report: Report = silent,
    *,
    other: Callable[[Message], None] = _ignore,
) -> Iterator[Letter]:
    """The letters that are in the DLQ now: the newest of each name, unless it was purged or replayed.

    `other` is called with records that are no letters: somebody else's, or of an older form. The topic is read twice,
    so that only a few bytes per letter are held in memory.
    """
    if not is_there(cluster, dlq):
        return
    starts, ends = cluster.topics.start_offsets(dlq), cluster.topics.end_offsets(dlq)
    census = Census(whole=True)
    for batch in batches_of(cluster, dlq, report, starts=starts, ends=ends):
        census.add(batch)
    rows = census.rows()
    live = rows[newest_of(rows) & ~rows["is_tombstone"]] if len(rows) else rows
    if not len(live) and not census.null_keys:
        return
    offsets = {int(p): np.sort(live["offset"][live["partition"] == p]) for p in np.unique(live["partition"])}
    for batch in batches_of(cluster, dlq, report, starts=starts, ends=ends):
        for message in batch:
            if message.key() is None:
                other(message)
                continue
            known = offsets.get(message.partition() or 0)
            if known is None or message.value() is None:
                continue
            index = int(np.searchsorted(known, message.offset() or 0))
            if index < len(known) and known[index] == message.offset():
                letter = letter_of(dlq, message)
                if letter is None:
                    other(message)
                elif selection.has(letter):
                    yield letter

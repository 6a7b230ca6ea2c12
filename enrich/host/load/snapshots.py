"""Snapshots as the agent uses them: the head start of a load, which reads the rest from the topic.

A loaded table is always complete to the topic's ends at the time of the load. So even an old snapshot never takes a
reader back. But it must be certain that the topic still has everything that happened since.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NoReturn, TypeVar

from enrich.base.errors import ConfigError, CorruptState, EnrichError, Fatal, WouldLoseData
from enrich.host.claims.notes import TOPIC_ID
from enrich.host.tables import TopicTable
from enrich.kafka import TopicSettings
from stores.snapshots import CLOCKS_DIFFER_MS, Manifest, Snapshot, newest_first
from stores.table import HistoryFloor, Offsets

T = TypeVar("T")

_log = logging.getLogger(__name__)

_TRIED = 3
"""How many snapshots of a table are tried before its topic is read whole: a bad one may show only at its end."""
_ATTEMPTS = 3
"""How often one agent tries a snapshot: a load may be killed without an error (out of memory, say)."""


@dataclass(frozen=True)
class TopicNow:
    """What the brokers report of the topic that a snapshot must fit."""

    name: str
    topic_id: str
    starts: Offsets
    ends: Offsets
    settings: TopicSettings
    asked_at_ms: int


def require_fits(snapshot: Snapshot, table: TopicTable, topic: TopicNow) -> None:
    """Raises WouldLoseData if the snapshot and the topic together do not give the table's rows."""
    manifest = snapshot.manifest

    def refuse(reason: str) -> NoReturn:
        raise WouldLoseData(
            f"the snapshot does not fit table `{table.name}`: {reason}",
            where=str(snapshot.path),
            next_step="use a newer one of this topic and table, or let the table load from its topic",
        )

    if manifest.definition != table.definition:
        refuse("its rows were made with another definition (format, schema, columns or key)")
    if manifest.notes.get(TOPIC_ID) != topic.topic_id:
        refuse(f"topic {topic.name} was deleted and recreated since, or it is of another topic ({manifest.topic})")
    if manifest.positions.keys() != topic.ends.keys():
        refuse(f"it has {len(manifest.positions)} partitions, topic {topic.name} has {len(topic.ends)}")
    for partition, position in manifest.positions.items():
        if position > topic.ends[partition]:
            refuse(
                f"it reaches to offset {position} of partition {partition}, which ends at {topic.ends[partition]}: "
                "the topic was cut short since"
            )
        if position < topic.starts[partition]:
            refuse(
                f"it reaches to offset {position} of partition {partition}, which begins at {topic.starts[partition]}: "
                "the records between are gone"
            )
    age_ms = topic.asked_at_ms - manifest.complete_through
    if age_ms < -CLOCKS_DIFFER_MS:
        refuse(f"it claims to be complete to {-age_ms / 1000:,.0f} s in the future: a clock is wrong")
    safe_ms = topic.settings.safe_absence_ms
    if age_ms > safe_ms:
        refuse(
            f"it is {age_ms / 1000:,.0f} s old, and only {safe_ms / 1000:,.0f} s are safe: the topic keeps tombstones "
            f"for {topic.settings.delete_retention_ms / 1000:,.0f} s"
        )
    ahead_ms = max((floor.timestamp for floor in manifest.floors.values()), default=0) - topic.asked_at_ms
    if table.spec.history_ms and ahead_ms > CLOCKS_DIFFER_MS:
        # As of a table without history, which a record of such a time has superseded a row of.
        refuse(f"its history begins {ahead_ms / 1000:,.0f} s in the future: until then each `as_of` would be expired")


def joined_floors(manifest: Manifest, topic: Mapping[int, HistoryFloor]) -> dict[int, HistoryFloor]:
    """From where on snapshot and topic together have every version. It is the snapshot's floor if the topic still has
    every version since the snapshot's position, else the topic's floor."""
    return {
        partition: floor
        for partition, position in manifest.positions.items()
        if (
            floor := topic[partition]
            if partition in topic and topic[partition].offset > position
            else manifest.floors.get(partition)
        )
        is not None
    }


@dataclass(frozen=True)
class HeadStarts:
    """The snapshots that a pipeline's tables may start from."""

    location: Path
    pipeline: str
    _attempts: Counter[Path] = field(default_factory=Counter)

    def of(self, table: TopicTable) -> Iterator[Snapshot]:
        """The newest first. None if the location cannot be read: a snapshot is only a head start."""
        for found in islice(self._found(table), _TRIED):
            if isinstance(found, Snapshot):
                self._attempts[found.path] += 1
                if self._attempts[found.path] <= _ATTEMPTS:
                    yield found
            else:
                _log_refused(table, found)

    def _found(self, table: TopicTable) -> Iterator[Snapshot | EnrichError]:
        try:
            yield from newest_first(self.location / self.pipeline / table.name)
        except EnrichError as error:
            _log_refused(table, error)


def load_from_newest(table: TopicTable, head_starts: HeadStarts | None, load: Callable[[Snapshot | None], T]) -> T:
    """Calls `load` with the newest snapshot that is good and fits, or with None if there is no such snapshot."""
    for snapshot in () if head_starts is None else head_starts.of(table):
        try:
            return load(snapshot)
        # Also errors that are not the snapshot's fault: the load from the topic will meet them again.
        except (CorruptState, ConfigError, Fatal) as error:
            _log_refused(table, error)
    return load(None)


def _log_refused(table: TopicTable, error: EnrichError) -> None:
    _log.warning("a snapshot is not used", extra={"table": table.name, "reason": str(error)})

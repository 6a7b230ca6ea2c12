"""Makes the topic equal to a table as a snapshot has it: at the first start, after a lost slot, a TRUNCATE, or when the
table's columns change. Only what differs is written: a row that stands is never deleted."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from enrich.base.errors import Retryable
from enrich.codecs.encoding import Encoder
from enrich.kafka import Connection, Topics
from enrich.kafka.writing.dead_letters import HeaderList
from enrich.kafka.writing.transactions import TransactionalProducer
from stores.clock import SystemClock
from stores.external.postgres.log.stream import lsn_number
from stores.external.postgres.log.visibility import Visibility
from stores.external.postgres.reading import PostgresReader
from sync_service.sources.known.catching_up import TopicFacts
from sync_service.sources.known.deletions import DeleteGuard
from sync_service.sources.known.differences import Counts, Differences
from sync_service.sources.known.remembered import Remembered
from sync_service.sources.logged.headers import of_snapshot
from sync_service.sources.polled.source import Extent, Reading
from sync_service.sources.writing import Writer

_LOOKS = 50


@dataclass(frozen=True)
class TableRows:
    """What of a table becomes records."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...] | None
    """Those of the value; None: all that the log has."""
    generated: frozenset[str]

    def values(self, there: Sequence[str], encoder: Encoder) -> tuple[str, ...]:
        """Of the columns that are there."""
        if self.columns is not None:
            return self.columns
        needed = encoder.columns
        return tuple(n for n in there if n not in self.generated and (needed is None or n in needed))


@dataclass(frozen=True)
class Snapshot:
    seen: str
    """Which transactions it sees."""
    until: int
    """From there on the log has none of them."""
    shape: str
    version: int
    """Of the records that the comparison wrote."""


@dataclass(frozen=True)
class Comparing:
    table: TableRows
    shape: Callable[[], str]
    """The table's columns now."""
    encoder: Encoder
    reader: PostgresReader
    producer: TransactionalProducer
    topics: Topics
    facts: TopicFacts
    consuming: Connection
    guard: DeleteGuard
    directory: Path

    def run(
        self, applied: npt.NDArray[np.int64], version: int, checkpoint: Callable[[], None], *, is_sure: bool
    ) -> tuple[Snapshot, Counts, int]:
        """Returns also how many rows there are. `applied`: the newest transactions of the log that are in the topic; a
        snapshot that does not see them yet is too old. `version`: the newest that a record has. `is_sure`: what is
        missing was deleted, no person is asked. Raises WouldLoseData otherwise."""
        known_at = self.directory / "known"
        with closing(Remembered(known_at, self.topics, self.facts, self.consuming)) as remembered:
            remembered.follow(checkpoint)
            known, work = remembered.known, self.directory / "work"
            with Differences(known, self.encoder, self.table.key, work, largest=self.facts.largest) as differences:
                snapshot, headers = self._compared(differences, applied, version, checkpoint)
                if not is_sure:
                    self.guard.require(differences.counts, known.rows, SystemClock().now_ms())
                if differences.counts.missing:
                    differences.delete_missing()
                Writer(self.producer, self.facts.name, known, headers).write(
                    differences.batches(), lambda _: checkpoint()
                )
            self.guard.settle()
            known.flush()
            return snapshot, differences.counts, known.rows

    def _compared(
        self, differences: Differences, applied: npt.NDArray[np.int64], version: int, checkpoint: Callable[[], None]
    ) -> tuple[Snapshot, HeaderList]:
        for _ in range(_LOOKS):
            with self.reader.snapshot() as snapshot:
                seen, until = snapshot.visible()
                # A transaction is in the log a moment before others see it.
                if not Visibility(seen).sees(applied).all():
                    checkpoint()
                    continue
                shape = snapshot.shape(self.table.name)
                values = self.table.values([column.name for column in shape.columns], self.encoder)
                wanted = list(dict.fromkeys((*self.table.key, *values)))
                differences.compare(Reading(Extent.whole, snapshot.rows(shape, wanted), values), checkpoint)
                lsn = lsn_number(until)
                # Above all that the snapshot sees. What it does not see gets a version above it in its turn.
                version = max(lsn, version + 1)
                # Nobody can change the columns while they are read.
                return Snapshot(seen, lsn, self.shape(), version), of_snapshot(lsn, snapshot.taken_ms, version)
        raise Retryable("the table's newest changes cannot be seen yet", where=f"table {self.table.name}")

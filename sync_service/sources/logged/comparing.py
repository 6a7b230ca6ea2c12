"""Makes a topic equal to its table as a snapshot has it: at the first start, after a lost slot, a TRUNCATE, or when the
table's columns change. Only what differs is written: a row that stands is never deleted."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from enrich.base.errors import Retryable
from enrich.codecs.encoding import Encoder
from enrich.kafka import Connection, Topics, read_topic
from enrich.kafka.records import headers_of
from enrich.kafka.writing.transactions import TransactionalProducer
from stores.clock import SystemClock
from stores.external.postgres.log.slots import Slots
from stores.external.postgres.log.stream import lsn_number
from stores.external.postgres.reading import PostgresReader
from sync_service.sources.known.catching_up import facts_of
from sync_service.sources.known.deletions import DeleteGuard
from sync_service.sources.known.differences import Counts, Differences
from sync_service.sources.known.remembered import Remembered
from sync_service.sources.logged.encoders import Encoders
from sync_service.sources.logged.followed.table import Followed, shape_of
from sync_service.sources.logged.headers import newest_version, of_snapshot
from sync_service.sources.logged.place import TableState
from sync_service.sources.logged.seeing import snapshot_seeing
from sync_service.sources.polled.source import Extent, Progress, Reading
from sync_service.sources.writing import Writer


@dataclass(frozen=True)
class Compared:
    """A topic that is like its table in a snapshot."""

    state: TableState
    version: int
    """The newest that a record has."""
    encoder: Encoder
    largest: int
    counts: Counts
    rows: int


@dataclass(frozen=True)
class Comparing:
    slots: Slots
    reader: PostgresReader
    encoders: Encoders
    producer: TransactionalProducer
    topics: Topics
    producing: Connection
    consuming: Connection

    def run(
        self,
        table: Followed,
        directory: Path,
        guard: DeleteGuard,
        applied: npt.NDArray[np.int64],
        version: int,
        checkpoint: Callable[[], None],
    ) -> Compared:
        """`applied`: the newest transactions of the log that are in the topic; a snapshot that does not see them yet is
        too old. `version`: the newest that a record has. Raises WouldLoseData if the guard has to ask a person."""
        facts = facts_of(self.topics, table.topic, self.producing)
        rows, state = table.rows, table.state
        # Before the snapshot: a partition that is attached while the table is read may be in neither of them.
        storage = self.slots.storage(rows.id)
        # Rows that went with a partition may come back with another one: a reload looks so.
        is_sure = state.is_sure and (not state.storage or state.storage[0] == storage.partitions)
        with closing(Remembered(directory / "known", self.topics, facts, self.consuming)) as remembered:
            # What was applied from the log a moment ago is not in the known rows, and not all readers see it yet.
            remembered.follow(checkpoint, self.topics.written_offsets(table.topic))
            known = remembered.known
            if known.progress != Progress():
                # Of another kind of source that had its turn here. If it comes back, the topic is not as it left it.
                known.note(progress=Progress())
                known.flush()
            if state.topic_id != facts.topic_id:
                # The log of whoever wrote there before may have been ahead of this one, as another database's is.
                version = max(version, self._newest_version(facts.name, checkpoint))
            with ExitStack() as held:
                with snapshot_seeing(self.reader, applied, rows.name, checkpoint) as (snapshot, seen):
                    shape = snapshot.shape(rows.name)
                    if shape.id != rows.id:
                        raise Retryable("another table has its name now", where=f"table {rows.name}")
                    # Nobody can change the columns while they are read.
                    sent = self.slots.columns(rows.id)
                    names = [column.name for column in sent]
                    there = rows.values(names, None)
                    fields = [column.field for column in shape.select(there)]
                    encoder, schema_id = self.encoders.newest(table.topic, fields)
                    values = rows.values(names, encoder.columns)
                    differences = held.enter_context(
                        Differences(known, encoder, rows.key, directory / "work", largest=facts.largest)
                    )
                    wanted = list(dict.fromkeys((*rows.key, *values)))
                    differences.compare(Reading(Extent.whole, snapshot.rows(shape, wanted), values), checkpoint)
                    lsn = lsn_number(seen[1])
                    # Above all that the snapshot sees. What it does not see gets a version above it in its turn.
                    version = max(lsn, version + 1)
                    headers = of_snapshot(lsn, snapshot.taken_ms, version)
                if not is_sure:
                    guard.require(differences.counts, known.rows, SystemClock().now_ms())
                if differences.counts.missing:
                    differences.delete_missing()
                Writer(self.producer, facts.name, known, headers).write(differences.batches(), lambda _: checkpoint())
            guard.settle()
            known.flush()
            now = SystemClock().now_ms()
            state = TableState(
                rows.id,
                facts.topic_id,
                rows.key,
                shape_of(sent),
                seen[0],
                lsn,
                now,
                storage,
                schema_id,
                is_sure=True,
                encoding=rows.encoding(encoder),
            )
            return Compared(state, version, encoder, facts.largest, differences.counts, known.rows)

    def _newest_version(self, topic: str, checkpoint: Callable[[], None]) -> int:
        starts, ends = self.topics.start_offsets(topic), self.topics.end_offsets(topic)
        newest = 0
        if starts != ends:
            for messages in read_topic(self.consuming, topic, starts, ends):
                checkpoint()
                newest = max(newest, newest_version(map(headers_of, messages)))
        return newest

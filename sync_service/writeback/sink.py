"""From records to the store: rows are written, what cannot be written is sent on, and all of it is counted."""

from collections.abc import Sequence

from confluent_kafka import Message

from stores.external import VersionedStore, Written
from sync_service.meters import Meter
from sync_service.writeback.generation import Gate, Generation
from sync_service.writeback.onward import Onward
from sync_service.writeback.records import Read, RecordReader
from sync_service.writeback.writing import Breathe, ParallelWriter


class StoreSink:
    """See `flow.Sink`."""

    def __init__(
        self,
        store: VersionedStore,
        writer: ParallelWriter,
        reader: RecordReader,
        onward: Onward,
        meter: Meter,
        gate: tuple[Gate, Generation] | None,
    ) -> None:
        self._store = store
        self._reader = reader
        self._writer = writer
        self._onward = onward
        self._meter = meter
        self._gate = gate

    def take(self, messages: Sequence[Message], breathe: Breathe) -> None:
        read = self._reader.read(messages)
        before = self._writer.retries
        tried = [(read, self._writer.write(read.rows, breathe))]
        # What is refused must not take an older version with it that the store would have taken.
        while tried[-1][1].refused and len((older := tried[-1][0].older(tried[-1][1].refused)).rows):
            tried.append((older, self._writer.write(older.rows, breathe)))
        # Only after the store has answered: were it away, all of this would come again.
        for message, reason, version in read.bad:
            self._onward.bury(message, version, reason)
        buried = len(read.bad)
        for some, written in tried:
            self._send_on(some, written)
        self._meter.count("dead_letters", buried)
        self._meter.count("records_read", len(messages))
        self._meter.count("quick_retries", self._writer.retries - before)

    def _send_on(self, read: Read, written: Written) -> None:
        for index, error in sorted(written.refused.items()):
            again = self._onward.refused(read.messages[index], read.rows.versions[index].as_py(), error)
            self._meter.count("rows_retried_later" if again else "dead_letters")
        self._meter.count("rows_written", written.applied)
        self._meter.count("rows_already_there", len(read.rows) - written.applied - len(written.refused))

    def settle(self) -> str:
        self._onward.flush()
        if self._gate is not None:
            gate, generation = self._gate
            gate.verify(generation)
        return self._store.incarnation()

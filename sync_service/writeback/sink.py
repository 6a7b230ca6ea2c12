"""From records to the store: rows are written, what cannot be written is sent on, and all of it is counted."""

from collections.abc import Sequence

from confluent_kafka import Message

from stores.external import VersionedStore
from sync_service.meters import Meter
from sync_service.writeback.generation import Gate, Generation
from sync_service.writeback.onward import Onward
from sync_service.writeback.records import RecordReader
from sync_service.writeback.writing import RowWriter


class StoreSink:
    """See `flow.Sink`."""

    def __init__(
        self,
        store: VersionedStore,
        reader: RecordReader,
        onward: Onward,
        meter: Meter,
        gate: tuple[Gate, Generation] | None,
    ) -> None:
        self._store = store
        self._reader = reader
        self._writer = RowWriter(store.write)
        self._onward = onward
        self._meter = meter
        self._gate = gate

    def take(self, messages: Sequence[Message]) -> None:
        read = self._reader.read(messages)
        before = self._writer.retries
        written = self._writer.write(read.rows)
        # Only after the store has answered: were it away, all of this would come again.
        for message, reason, version in read.bad:
            self._onward.bury(message, version, reason)
        buried = len(read.bad)
        for index, error in sorted(written.refused.items()):
            again = self._onward.refused(read.messages[index], read.rows.versions[index].as_py(), error)
            self._meter.count("rows_retried_later" if again else "dead_letters")
        self._meter.count("dead_letters", buried)
        self._meter.count("records_read", len(messages))
        self._meter.count("rows_written", written.applied)
        self._meter.count("rows_already_there", len(read.rows) - written.applied - len(written.refused))
        self._meter.count("quick_retries", self._writer.retries - before)

    def settle(self) -> str:
        self._onward.flush()
        if self._gate is not None:
            gate, generation = self._gate
            gate.verify(generation)
        return self._store.incarnation()

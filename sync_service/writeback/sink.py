"""Writes records to the store as rows, sends on what cannot be written, and counts both."""

from collections.abc import Sequence

from confluent_kafka import Message

from enrich.delivery.partitions.gaps import Gap
from enrich.delivery.partitions.positions import bounded
from enrich.delivery.plan import Advance
from enrich.kafka.records import headers_of
from enrich.kafka.retries import topic_id_in
from enrich.service.meters import Meter
from stores.external import VersionedStore, Written
from sync_service.writeback.generation import Gate, Generation
from sync_service.writeback.onward import Onward
from sync_service.writeback.records import Read, RecordReader
from sync_service.writeback.tallying import Tallying
from sync_service.writeback.writing import KeepAlive, ParallelWriter

COUNTED = ("rows_written", "rows_already_there", "rows_retried_later", "quick_retries", "dead_letters")
"""Beside the records that are read."""


class StoreSink:
    """See `delivery.plan.Sink`."""

    def __init__(
        self,
        store: VersionedStore,
        writer: ParallelWriter,
        reader: RecordReader,
        onward: Onward,
        meter: Meter,
        gate: tuple[Gate, Generation],
        tallying: Tallying,
        *,
        is_tier: bool,
    ) -> None:
        self._store = store
        self._reader = reader
        self._writer = writer
        self._onward = onward
        self._meter = meter
        self._gate = gate
        self._tallying = tallying
        self._is_tier = is_tier

    def take(self, messages: Sequence[Message], keep_alive: KeepAlive) -> None:
        read = self._reader.read(self._of_this_topic(messages))
        before = self._writer.retries
        tried = [(read, self._writer.write(read.rows, keep_alive))]
        # A refused row must not hide an older version of its key in the batch that the store would take.
        while tried[-1][1].refused and len((older := tried[-1][0].older(tried[-1][1].refused)).rows):
            tried.append((older, self._writer.write(older.rows, keep_alive)))
        # Only after the store has answered: if it were unreachable, these records would come again.
        dead, waiting = list[Message](), list[Message]()
        for message, reason, version in read.bad:
            self._onward.bury(message, version, reason)
            dead.append(message)
        for message in messages:
            if self._is_of_another(message):
                self._onward.bury(message, None, "the topic was recreated since it was read")
                self._meter.count("dead_letters")
                dead.append(message)
        buried = len(read.bad)
        for some, written in tried:
            self._send_on(some, written, dead, waiting)
        self._tallying.taken(messages, dead, waiting)
        self._meter.count("dead_letters", buried)
        self._meter.count("records_read", len(messages))
        self._meter.count("quick_retries", self._writer.retries - before)

    def _of_this_topic(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if not self._is_of_another(message)] if self._is_tier else messages

    def _is_of_another(self, message: Message) -> bool:
        """The record is from a topic that was deleted and recreated since: its version cannot be compared any more."""
        if not self._is_tier:
            return False
        known = topic_id_in(headers_of(message))
        return bool(known) and known != self._gate[1].topic_id

    def _send_on(self, read: Read, written: Written, dead: list[Message], waiting: list[Message]) -> None:
        for index, error in sorted(written.refused.items()):
            again = self._onward.refused(read.messages[index], read.rows.versions[index].as_py(), error)
            self._meter.count("rows_retried_later" if again else "dead_letters")
            (waiting if again else dead).append(read.messages[index])
        self._meter.count("rows_written", written.applied)
        self._meter.count("rows_already_there", len(read.rows) - written.applied - len(written.refused))

    def remark(self, gap: Gap) -> None:
        gate, generation = self._gate
        gate.remark(doubt=gap.doubt, cut=gap.cut)
        if gap.cut is not None:
            gate.verify(generation)

    def report(self, advances: Sequence[Advance]) -> None:
        self._tallying.report(advances)

    def settle(self) -> str:
        self._onward.flush()
        gate, generation = self._gate
        gate.verify(generation)
        return bounded(self._store.incarnation())

"""What the store should have: the topic read from its start to given ends, every record as the store would spell it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from enrich.errors import BadRecord
from enrich.kafka import Connection, new_store_consumer, read_to_end
from stores.external import VersionedRows, VersionedStore
from sync_service.reconcile.digests import Rows, Texts, digests_of, hashes_of
from sync_service.writeback.generation import Generation
from sync_service.writeback.records import RecordReader

# Spelling is a question to PostgreSQL; so many rows at once are answered well below its deadline.
_ROWS = 5_000


@dataclass(frozen=True)
class Part:
    """Some records of one partition: the newest of each key among them."""

    rows: VersionedRows
    keys: Sequence[bytes]
    """As the store spells them."""
    texts: Sequence[Texts]
    compared: Rows


class TopicReading:
    """Reads one topic, again and again."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        reader: RecordReader,
        store: VersionedStore,
        generation: Generation,
        check: Callable[[], None],
    ) -> None:
        """`check` is called now and then, and raises to end the reading."""
        self._check = check
        self._connection = connection
        self._topic = topic
        self._reader = reader
        self._store = store
        self._generation = generation
        self.unwritable = 0
        """Records that no store could hold: they are in the DLQ."""

    def parts(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Part]:
        consumer = new_store_consumer(self._connection)
        try:
            for batch in read_to_end(consumer, self._topic, starts, ends):
                self._check()
                by_partition: dict[int, list[Message]] = defaultdict(list)
                for message in batch:
                    by_partition[message.partition()].append(message)  # type: ignore[index] # a record has one
                for partition, messages in by_partition.items():
                    for start in range(0, len(messages), _ROWS):
                        yield from self._part(partition, messages[start : start + _ROWS])
        finally:
            consumer.close()

    def _part(self, partition: int, messages: Sequence[Message]) -> Iterator[Part]:
        read = self._reader.read(messages)
        self.unwritable += len(read.bad)
        yield from self._spelled(partition, read.rows, read.messages)

    def _spelled(self, partition: int, rows: VersionedRows, messages: Sequence[Message]) -> Iterator[Part]:
        if not len(rows):
            return
        try:
            keys = self._store.spelled_keys(rows.keys.to_pylist())
            texts = self._store.spelled(rows.values)
        except BadRecord:
            if len(rows) == 1:
                self.unwritable += 1
                return
            middle = len(rows) // 2
            yield from self._spelled(partition, rows.take(range(middle)), messages[:middle])
            yield from self._spelled(partition, rows.take(range(middle, len(rows))), messages[middle:])
            return
        yield Part(rows, keys, texts, self._compared(partition, rows, messages, keys, texts))

    def _compared(
        self,
        partition: int,
        rows: VersionedRows,
        messages: Sequence[Message],
        keys: Sequence[bytes],
        texts: Sequence[Texts],
    ) -> Rows:
        versions = rows.versions.to_numpy()
        offsets = np.fromiter((message.offset() for message in messages), np.int64, len(messages))
        times = np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages))
        settled = offsets < self._generation.starts.get(partition, 0)
        # Where a header or a column gave the version, it decides alone, however old the record.
        counted = np.fromiter((self._generation.version(partition, int(o)) for o in offsets), np.int64, len(offsets))
        settled &= versions == counted
        return Rows(
            hashes_of(keys),
            settled,
            np.where(settled, times, versions),
            np.where(settled, partition * 2**40 + offsets, -offsets),
            versions,
            digests_of(texts),
            rows.values.is_valid().to_numpy(zero_copy_only=False),
        )

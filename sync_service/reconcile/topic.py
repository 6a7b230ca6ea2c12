"""Reads what the store should have: the topic from its start to given ends, each record in the store's text form."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Message

from enrich.base.errors import BadRecord, CorruptState, Retryable
from enrich.kafka import Connection, Topics, read_topic
from stores.external import VersionedRows, VersionedStore
from sync_service import heaps
from sync_service.reconcile.digests import Numbers, Rows, Texts, digests_of, hashes_of
from sync_service.reconcile.stamps import stamps_of
from sync_service.writeback.generation import OFFSETS, Generation
from sync_service.writeback.records import RecordReader

# PostgreSQL is asked for the text form of rows; it answers for so many at once well within the deadline.
_ROWS = 5_000


@dataclass(frozen=True)
class Part:
    """Records of one partition: of those read at once, the newest of each key."""

    rows: VersionedRows
    keys: Sequence[bytes]
    """In the store's text form."""
    texts: Sequence[Texts]
    compared: Rows


class TopicReading:
    """Reads one topic, repeatedly."""

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        topic: str,
        reader: RecordReader,
        store: VersionedStore,
        generation: Generation,
        check: Callable[[], None],
    ) -> None:
        """`check` is called for each batch, and may raise to end the reading."""
        self.check = check
        self._connection = connection
        self._topics = topics
        self._topic = topic
        self._reader = reader
        self._store = store
        self._generation = generation
        self.unwritable = 0
        """Records that cannot become rows: they are in the DLQ."""
        self.unwritable_keys: list[Numbers] = []
        """Hashes of the keys of these, if they are valid keys."""

    def forget_unwritable(self) -> None:
        """To be called before the topic is read again."""
        self.unwritable, self.unwritable_keys = 0, []

    def parts(self, starts: Mapping[int, int], ends: Mapping[int, int], *, every: bool = False) -> Iterator[Part]:
        """`every`: also the older records of each key, in separate parts."""
        for partition, messages in self._messages(starts, ends):
            read = self._reader.read(messages)
            self._take_unwritable([message for message, _, _ in read.bad])
            while len(read.rows):
                unspelled: list[int] = []
                yield from self._spelled(partition, read.rows, read.messages, range(len(read.rows)), unspelled)
                # If the store refuses the newest record of a key, it has the one before.
                read = read.older(range(len(read.rows)) if every else unspelled)

    def keys(self, ends: Mapping[int, int]) -> Iterator[list[bytes]]:
        """Only the keys of all records, in the store's text form."""
        for _, messages in self._messages({}, ends):
            yield self._spelled_keys([key for message in messages if (key := message.key()) is not None])

    def _messages(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[tuple[int, Sequence[Message]]]:
        # The first records of a topic may be gone by retention or compaction.
        firsts = self._topics.start_offsets(self._topic)
        begins = {partition: max(starts.get(partition, 0), firsts.get(partition, 0)) for partition in ends}
        try:
            for batch in read_topic(self._connection, self._topic, begins, ends):
                self.check()
                by_partition: dict[int, list[Message]] = defaultdict(list)
                for message in batch:
                    by_partition[message.partition()].append(message)  # type: ignore[index] # a record has one
                for partition, messages in by_partition.items():
                    for start in range(0, len(messages), _ROWS):
                        yield partition, messages[start : start + _ROWS]
        except CorruptState as error:
            raise Retryable(
                f"the topic lost records while they were read: {error.what}",
                where=error.where,
                next_step="run it again",
            ) from error
        finally:
            heaps.give_back()

    def _take_unwritable(self, messages: Sequence[Message]) -> None:
        self.unwritable += len(messages)
        keys = self._spelled_keys([key for message in messages if (key := message.key()) is not None])
        if keys:
            self.unwritable_keys.append(hashes_of(keys))

    def _spelled_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        """The keys in the store's text form, without those that are not valid keys."""
        if not keys:
            return []
        try:
            return self._store.spelled_keys(keys)
        except BadRecord:
            middle = len(keys) // 2
            return [*self._spelled_keys(keys[:middle]), *self._spelled_keys(keys[middle:])] if middle else []

    def _spelled(
        self,
        partition: int,
        rows: VersionedRows,
        messages: Sequence[Message],
        places: Sequence[int],
        unspelled: list[int],
    ) -> Iterator[Part]:
        """Adds to `unspelled` the indexes of rows that the store refuses."""
        try:
            keys = self._store.spelled_keys(rows.keys.to_pylist())
            texts = self._store.spelled(rows.values)
        except BadRecord:
            if len(rows) == 1:
                self._take_unwritable(messages)
                unspelled.append(places[0])
                return
            middle = len(rows) // 2
            yield from self._spelled(partition, rows.take(range(middle)), messages[:middle], places[:middle], unspelled)
            rest = rows.take(range(middle, len(rows)))
            yield from self._spelled(partition, rest, messages[middle:], places[middle:], unspelled)
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
        # If the version comes from a header or a column, it alone decides, however old the record.
        counted = versions == (self._generation.number - settled) * OFFSETS + offsets
        settled &= counted
        releases = () if rows.releases is None else np.where(counted, 0, rows.releases.to_numpy())
        return Rows(
            hashes_of(keys),
            settled,
            np.where(settled, times, versions),
            np.where(settled, partition * 2**40 + offsets, -offsets),
            stamps_of(versions, releases),
            digests_of(texts),
            rows.values.is_valid().to_numpy(zero_copy_only=False),
            counted,
        )

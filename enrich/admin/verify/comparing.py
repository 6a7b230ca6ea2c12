"""Compares a table with its topic, row by row, without trusting how the table was loaded.

The topic is read again into a separate store in a temporary directory, and both stores are scanned in key order, so
memory is bounded whatever their size. A key whose newest record is newer than the view cannot be compared; it is
counted.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path

import pyarrow as pa

from enrich.base.errors import CorruptState
from enrich.host.claims.notes import TOPIC_ID
from enrich.kafka import Connection, Topics, new_admin_client, read_topic
from enrich.kafka.records import row_versions_of
from stores.protocol import Clock, Decoded, Decoder, KeyKind, TableSpec
from stores.rocks import RocksReader, RocksStore, Sizes, WholeTable
from stores.rocks.layout import TOMBSTONE, Entry
from stores.rocks.network_rows import network_text
from stores.table import Offsets

_TABLE = "topic"
_DECODED_AT_A_TIME = 1_000
_SIZES = Sizes(block_cache=8 << 20, write_buffer=4 << 20, bulk=16 << 20)
"""The store is written once and read once, in order: a large cache would never be hit."""
_Entries = Iterator[tuple[bytes, list[Entry]]]


class Kind(StrEnum):
    """How a table differs from its topic."""

    MISSING = "missing"
    EXTRA = "extra"
    OLDER = "older"
    NEWER = "newer"
    DIFFERENT = "different"
    MISPLACED = "misplaced"
    POSITION = "position"
    TOPIC = "topic"
    DIGEST = "digest"


@dataclass(frozen=True)
class Difference:
    kind: Kind
    what: str
    key: bytes | None = None
    partition: int | None = None
    offset: int | None = None
    """Offset of the table's version, or of the topic's if the table has none."""


@dataclass
class Compared:
    """What was compared. Counts are complete once the iterator of differences is exhausted."""

    keys: int = 0
    differences: int = 0
    changed_meanwhile: int = 0
    """Keys with a record that is newer than the view."""
    undecodable: int = 0
    """Keys whose newest record cannot become a row: the table keeps the previous row, which compaction may have removed
    from the topic."""
    forgotten_tombstones: int = 0
    """Deleted keys of which only one of both has the tombstone still: the topic's cleaner removes it in the end, and so
    does a table without history."""


@dataclass(frozen=True)
class _Pair:
    """A key in one partition, in the table and in the topic."""

    key: bytes
    partition: int
    stored: Entry | None
    recorded: Entry | None
    elsewhere: int | None = None
    """Another partition in which the topic, but not the table, has the key."""


@dataclass
class Comparison:
    """One run of `enrich table verify`."""

    table: WholeTable
    decoder: Decoder
    topic: str
    connection: Connection
    scratch: Path
    """An empty directory, for a store of the topic's size."""
    clock: Clock
    report: Callable[[str, int], None] = lambda _what, _count: None
    """Called with what is being counted, and the count so far."""
    compared: Compared = field(default_factory=Compared)

    def differences(self) -> Iterator[Difference]:
        """Every difference. Errors of Kafka and of the disk are not caught."""
        for difference in self._all():
            self.compared.differences += 1
            yield difference

    def _all(self) -> Iterator[Difference]:
        topics = Topics(new_admin_client(self.connection))
        another = Difference(Kind.TOPIC, "the topic was deleted and recreated since the table was loaded")
        if not self._is_of(topics):
            yield another
            return
        try:
            self.table.verify()
        except CorruptState as error:
            yield Difference(Kind.DIGEST, error.what)
        ends = topics.end_offsets(self.topic)
        for partition, position in self.table.state.positions.items():
            if position > ends.get(partition, 0):
                what = f"the table has read to offset {position}, the topic ends at {ends.get(partition, 0)}"
                yield Difference(Kind.POSITION, what, partition=partition)
        spec = TableSpec(pa.schema([]), _Anything(), 0, self.table.state.key)
        self._load(topics, ends, spec)
        if not self._is_of(topics):  # checked again: the topic was read by its name
            yield another
            return
        reader = RocksReader(self.scratch, {_TABLE: spec}, sizes=_SIZES)
        try:
            recorded = reader.snapshot().table(_TABLE).whole()
            pairs = self._pairs(self.table.entries(), recorded.entries())
            unequal = (pair for pair in pairs if not _are_equal(pair.stored, pair.recorded))
            while some := list(islice(unequal, _DECODED_AT_A_TIME)):
                yield from self._judged(some)
        finally:
            reader.close()

    def _is_of(self, topics: Topics) -> bool:
        return topics.topic_id(self.topic) == self.table.state.notes.get(TOPIC_ID)

    def _load(self, topics: Topics, ends: Offsets, spec: TableSpec) -> None:
        store = RocksStore(self.scratch, {_TABLE: spec}, self.clock, sizes=_SIZES)
        try:
            load = store.bulk(_TABLE)
            starts, records = topics.start_offsets(self.topic), 0
            # A record that is written during the read lets compaction remove the one that it replaces, maybe before
            # it is read here. So a second round reads the newest records too, although they cannot be compared.
            for round_starts, round_ends in ((starts, ends), (ends, None)):
                until = topics.end_offsets(self.topic) if round_ends is None else round_ends
                for messages in read_topic(self.connection, self.topic, round_starts, until):
                    load.add(row_versions_of(messages))
                    records += len(messages)
                    self.report("records read", records)
            load.finish(until)
        finally:
            store.close()

    def _pairs(self, stored: _Entries, recorded: _Entries) -> Iterator[_Pair]:
        """The entries of both sides in key order, without keys that are obviously equal."""
        ours, theirs = next(stored, None), next(recorded, None)
        while ours is not None or theirs is not None:
            if theirs is None or (ours is not None and ours[0] < theirs[0]):
                assert ours is not None  # noqa: S101 - one of both is not None
                key, mine, other = ours[0], ours[1], []
                ours = next(stored, None)
            elif ours is None or theirs[0] < ours[0]:
                key, mine, other = theirs[0], [], theirs[1]
                theirs = next(recorded, None)
            else:
                key, mine, other = ours[0], ours[1], theirs[1]
                ours, theirs = next(stored, None), next(recorded, None)
            self.compared.keys += 1
            if self.compared.keys % 10_000 == 0:
                self.report("keys compared", self.compared.keys)
            if len(mine) == len(other) == 1 and _are_equal(mine[0], other[0]):
                continue  # nearly all keys: no pairs are made of them
            yield from _of_key(key, {one.partition: one for one in mine}, {one.partition: one for one in other})

    def _judged(self, pairs: list[_Pair]) -> Iterator[Difference]:
        values = [None if pair.recorded is None else pair.recorded.value for pair in pairs]
        undecodable = self.decoder.decode(pa.array(values, pa.binary())).bad
        for index, pair in enumerate(pairs):
            position = self.table.state.positions.get(pair.partition, 0)
            stored, recorded = pair.stored, pair.recorded
            if stored is not None and stored.offset >= position:
                yield self._difference(pair, Kind.NEWER, f"the table has read to offset {position} only")
            elif recorded is not None and recorded.offset >= position:
                self.compared.changed_meanwhile += 1
            elif recorded is None:
                if stored is not None and stored.flags & TOMBSTONE:
                    self.compared.forgotten_tombstones += 1
                elif pair.elsewhere is not None:
                    yield self._difference(pair, Kind.MISPLACED, f"the topic has it in partition {pair.elsewhere}")
                else:
                    yield self._difference(pair, Kind.EXTRA, "the topic has no record of the key")
            elif index in undecodable and (stored is None or stored.offset < recorded.offset):
                self.compared.undecodable += 1
            elif stored is None and self._is_buried(recorded):
                self.compared.forgotten_tombstones += 1
            elif stored is None:
                yield self._difference(pair, Kind.MISSING, f"the topic has it at offset {recorded.offset}")
            elif stored.offset != recorded.offset:
                kind = Kind.OLDER if stored.offset < recorded.offset else Kind.NEWER
                yield self._difference(pair, kind, f"the topic has it at offset {recorded.offset}")
            else:
                yield self._difference(pair, Kind.DIFFERENT, _how(stored, recorded))

    def _is_buried(self, recorded: Entry) -> bool:
        below = self.table.state.buried.get(recorded.partition, 0)
        return bool(recorded.flags & TOMBSTONE) and recorded.offset < below

    def _difference(self, pair: _Pair, kind: Kind, what: str) -> Difference:
        key = network_text(pair.key) if self.table.state.key is KeyKind.CIDR else pair.key
        shown = pair.stored or pair.recorded
        return Difference(kind, what, key, pair.partition, None if shown is None else shown.offset)


class _Anything:
    """Accepts every record as a row: here the newest record of a key counts, even if it cannot be decoded."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return Decoded(pa.array([{}] * len(values), pa.struct([])))


def _of_key(key: bytes, stored: Mapping[int, Entry], recorded: Mapping[int, Entry]) -> Iterator[_Pair]:
    alone = [partition for partition in recorded if partition not in stored]
    for partition in sorted(stored.keys() | recorded.keys()):
        if partition in recorded:
            if partition in alone and len(stored) == len(recorded) and not stored.keys() & recorded.keys():
                continue  # reported only once, as the misplaced one
            yield _Pair(key, partition, stored.get(partition), recorded[partition])
        else:
            yield _Pair(key, partition, stored[partition], None, alone[0] if alone else None)


def _are_equal(one: Entry | None, other: Entry | None) -> bool:
    """Whether they are the same row version. Arrival times and history flags differ from host to host."""
    return (
        one is not None
        and other is not None
        and one.offset == other.offset
        and one.partition == other.partition
        and one.timestamp == other.timestamp
        and one.payload == other.payload
        and one.flags & TOMBSTONE == other.flags & TOMBSTONE
    )


def _how(stored: Entry, recorded: Entry) -> str:
    if stored.flags & TOMBSTONE != recorded.flags & TOMBSTONE:
        return f"it is {'deleted' if stored.flags & TOMBSTONE else 'not deleted'} in the table only"
    if stored.payload != recorded.payload:
        return f"its {len(stored.payload)} bytes are not the {len(recorded.payload)} bytes of the topic"
    return f"its timestamp is {stored.timestamp}, {recorded.timestamp} in the topic"

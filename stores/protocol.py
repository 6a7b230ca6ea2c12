"""The interface of every engine, and the few things that an engine needs from its callers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

import pyarrow as pa

from stores.table import Found, HistoryFloor, Offsets, Seq


class TableView(Protocol):
    """One table as a snapshot sees it. It never changes."""

    @property
    def columns(self) -> pa.Schema: ...

    @property
    def positions(self) -> Offsets:
        """For each partition the offset below which every record is in this view."""

    @property
    def floors(self) -> Mapping[int, HistoryFloor]:
        """For each partition from where on its history is whole. No entry: from its first record on."""

    @property
    def complete_through(self) -> int | None:
        """The agent's clock (milliseconds) when it asked for end offsets that this view has reached."""

    def lookup(
        self,
        keys: pa.Array,
        columns: Sequence[str],
        *,
        as_of: pa.Array | None = None,
        pin: Offsets | None = None,
    ) -> Found:
        """Finds the version of each key and takes the chosen columns of its row.

        keys: text, bytes, integers (looked up as their decimal digits), or a struct of these for a composite key.
        Without `as_of` and `pin` the latest version answers: the one with the greatest offset in its partition, and
        among partitions the greatest by (timestamp, partition, offset). `as_of` (timestamps, one a key) asks for the
        version with the greatest (timestamp, partition, offset) whose timestamp is not later; a null time counts as a
        null key. `pin` hides every version at or above its partition's offset, and all versions of partitions that it
        does not name. Look-ups below a history floor are answered `expired`: an `as_of` earlier than the latest floor
        of any partition, a pin lower than a partition's floor.

        Raises ConfigError for a column that the table does not have or keys of a type that cannot be a key, and
        Retryable for a pin that this view has not reached.
        """


class Snapshot(Protocol):
    """All tables of a store at one seq. It answers until its reader takes the next snapshot, then it raises Retryable:
    so an engine need not keep old states."""

    @property
    def seq(self) -> Seq: ...

    def table(self, name: str) -> TableView:
        """Raises ConfigError for a table that the store does not have."""


class Reader(Protocol):
    """A worker's view of a store. Its snapshots never go back."""

    def snapshot(self) -> Snapshot:
        """The newest publication. The reader's earlier snapshots raise from now on."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Decoded:
    """Values as typed rows. A row is null if its value was null (a tombstone) or is in `bad`."""

    rows: pa.StructArray
    bad: Mapping[int, str] = field(default_factory=dict)
    """Index of a value that could not be decoded -> the reason."""


class Decoder(Protocol):
    """Turns the raw values of a table into rows of its columns, a batch at a time."""

    def decode(self, values: pa.BinaryArray) -> Decoded: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""


class KeyKind(StrEnum):
    """How look-ups match keys: by equality, or an address by the network that contains it."""

    EXACT = "exact"
    CIDR = "cidr"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What an engine must know about a table."""

    columns: pa.Schema
    decoder: Decoder
    history_ms: int = 0
    key: KeyKind = KeyKind.EXACT
    tombstones_ms: int = 86_400_000
    """Without history: how long the table knows of a key that was deleted. Otherwise keys that come and go would make
    it grow for ever."""


@dataclass(frozen=True, slots=True)
class TableUpdate:
    """New records of one table, in a batch of `ROW_VERSIONS`, and the table's state with them. Records that cannot
    become a row version, for example without a key, go to the quarantine."""

    versions: pa.RecordBatch
    positions: Offsets
    complete_through: int | None = None
    floors: Mapping[int, HistoryFloor] = field(default_factory=dict)
    """Given by a bulk load: it reads a compacted topic, which no longer has the whole history."""
    notes: Mapping[str, str] | None = None
    """What the caller wants to store with the positions, such as the topic's id. An engine on disk keeps them until
    others are given; no engine reads them."""


NO_KEY = "the record has no key"
NO_NETWORK = "the key is no network"
"""Reasons for a quarantine; all engines use these texts. Records are counted by reason, so no reason contains payload.
"""


class QuarantineId(NamedTuple):
    """Identifies a record in quarantine. With its time, since a topic that is recreated uses the same offsets."""

    partition: int
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that could not become a row version: its position, its content and the reason."""

    table: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    reason: str
    arrived: int
    """The clock (milliseconds) when the engine got it."""

    @property
    def id(self) -> QuarantineId:
        return QuarantineId(self.partition, self.offset, self.timestamp)


@dataclass(frozen=True, slots=True)
class Publication:
    seq: Seq
    quarantined: Sequence[Quarantined] = ()
    removed: int = 0
    """How many versions `remove_expired` has removed."""
    looked_at: int = 0
    """How many it has looked at: more if some had to stay."""


class Writer(Protocol):
    """The one writer of a store."""

    def publish(self, updates: Mapping[str, TableUpdate]) -> Publication:
        """Makes the updates of all named tables visible at once. Ignores versions below a position: they are stored."""

    def remove_expired(self) -> Publication:
        """Removes the versions that no as-of time and no pin within the tables' history can return.

        In a table without history an engine may remove versions, and raise floors, as soon as they are superseded, and
        a tombstone after the table's `tombstones_ms`: a look-up then answers `miss` instead of `deleted`."""

"""What an external store is to the sync service: rows under keys, each with a version, written only where newer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from stores.errors import BadRecord

LARGEST_VERSION = 2**53
"""Up to here a number of Redis' scripts is exact; one bound for all stores, so that they can be exchanged."""
OFFSETS_OF_A_GENERATION = 2**40
"""A version that comes of an offset is generation * this + offset."""
NOTES = "enrich:sync:"
"""The names of all notes begin so. Where rows and notes stand under keys of one space, no row has such a key."""
LARGEST_GENERATION = LARGEST_VERSION // OFFSETS_OF_A_GENERATION - 2


@dataclass(frozen=True, slots=True)
class VersionedRows:
    """Rows for a store, one a key: no key is there twice."""

    keys: pa.BinaryArray
    versions: pa.Int64Array
    values: pa.StructArray
    """Null where the key is deleted."""

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, indexes: Sequence[int] | pa.Array) -> "VersionedRows":
        places = pa.array(indexes, pa.int64())
        return VersionedRows(self.keys.take(places), self.versions.take(places), self.values.take(places))


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the rows of one write."""

    applied: int
    refused: Mapping[int, BadRecord] = field(default_factory=dict)
    """Index of a row that the store does not take -> why. All others are safe there, in this version or newer."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows as the store has them, as text in its own spelling, so that they can be compared with `spelled`."""

    keys: Sequence[bytes]
    versions: Sequence[int | None]
    """None: the store has something under the key that no write of ours put there."""
    texts: Sequence[tuple[bytes | None, ...] | None]
    """A text a column, or None for a key that is deleted (or, when it was asked for by name, is not there)."""


class VersionedStore(Protocol):
    """One connection to one place. Every call ends within the store's deadline; none is made from two threads at once.

    All raise the errors of our tree: Unreachable and Retryable when the store is away or busy, ConfigError when it lets
    nobody in or is not as it has to be.
    """

    def check(self) -> list[str]:
        """Whether the place can hold the rows. Returns warnings for people; raises ConfigError when it cannot."""

    def incarnation(self) -> str:
        """Changes when the server was restarted or another took its place: it may then have lost writes."""

    def write(self, rows: VersionedRows, seen: pa.Int64Array | None = None) -> Written:
        """Writes each row whose version is greater than the stored one; safe to repeat.

        With `seen` also a row whose stored version is exactly the seen one: for repairs, which must not overwrite what
        came in the meantime. Raises BadRecord when a row is wrong and the store cannot tell which one: nothing is
        written then.
        """

    def scan(self) -> Iterator[StoredRows]:
        """All living rows, in batches; a row may come twice when the store changes meanwhile."""

    def is_empty(self) -> bool:
        """Whether nothing of ours is there: no row, and no mark of a deleted one."""

    def fetch(self, keys: Sequence[bytes]) -> StoredRows:
        """The rows of these keys, in their order."""

    def spelled_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        """How `scan` would name these keys. Raises BadRecord for what cannot be a key."""

    def spelled(self, values: pa.StructArray) -> list[tuple[bytes | None, ...] | None]:
        """How the store would give these rows back."""

    def load_note(self, name: str) -> str | None:
        """What `save_note` kept under this name, which begins with NOTES, beside the rows."""

    def save_note(self, name: str, note: str, replacing: str | None) -> bool:
        """Keeps the note if the present one is `replacing`; tells whether it was."""

    def close(self) -> None: ...

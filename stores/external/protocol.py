"""The interface of an external store for the sync service: rows by key, each with a version and a release, written only
if newer: of a greater version, or of the same version and a greater release."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from stores.errors import BadRecord

NOTES = "enrich:sync:"
"""The prefix of the names of all notes. If rows and notes share a key space, no row may have a key with this prefix."""


@dataclass(frozen=True, slots=True)
class VersionedRows:
    """Rows for a store; no key occurs twice."""

    keys: pa.BinaryArray
    versions: pa.Int64Array
    values: pa.StructArray
    """Null where the key is deleted."""
    releases: pa.Int64Array | None = None
    """None: all are of release 0."""

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, indexes: Sequence[int] | pa.Array) -> "VersionedRows":
        places = pa.array(indexes, pa.int64())
        releases = None if self.releases is None else self.releases.take(places)
        return VersionedRows(self.keys.take(places), self.versions.take(places), self.values.take(places), releases)

    def filter(self, wanted: pa.BooleanArray) -> "VersionedRows":
        releases = None if self.releases is None else self.releases.filter(wanted)
        return VersionedRows(
            self.keys.filter(wanted), self.versions.filter(wanted), self.values.filter(wanted), releases
        )


@dataclass(frozen=True, slots=True)
class Written:
    """The result of one write."""

    applied: int
    refused: Mapping[int, BadRecord] = field(default_factory=dict)
    """Index of a row that the store refuses -> why. All others are stored, in this version or a newer one."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows as stored, as text in the store's own spelling, so that they can be compared with `spelled`."""

    keys: Sequence[bytes]
    versions: Sequence[int | None]
    """None: the store has something under the key that we did not write."""
    texts: Sequence[tuple[bytes | None, ...] | None]
    """One text per column, or None for a key that is deleted (or, in `fetch`, missing)."""
    releases: Sequence[int] = ()
    """Empty: all are 0, as is that of a row without a version."""


class VersionedStore(Protocol):
    """One connection to one store. Every call ends within the store's deadline. Only one thread may call at a time.

    All methods raise errors of our tree: Unreachable and Retryable if the store is away or busy, ConfigError if it
    refuses the login or is not set up as required.
    """

    def check(self) -> list[str]:
        """Checks that the store can hold the rows. Returns warnings for people; raises ConfigError if it cannot."""

    def incarnation(self) -> str:
        """Changes if the server was restarted or replaced by another: it may then have lost writes."""

    def write(
        self, rows: VersionedRows, seen: pa.Int64Array | None = None, seen_releases: pa.Int64Array | None = None
    ) -> Written:
        """Writes each row whose version is greater than the stored one, or equal and its release greater; safe to
        repeat. A row that was stored without a release has release 0.

        With `seen` it also writes a row whose stored version and release are exactly the seen ones: for repairs, which
        must not overwrite newer writes. `seen_releases`: None if all are 0. Raises BadRecord if a row is wrong and the
        store cannot say which one: then nothing is written.
        """

    def scan(self) -> Iterator[StoredRows]:
        """All living rows, in batches; a row may occur twice if the store changes meanwhile."""

    def is_empty(self) -> bool:
        """Whether there is nothing of ours: no row, and no mark of a deleted one."""

    def fetch(self, keys: Sequence[bytes]) -> StoredRows:
        """The rows of these keys, in their order."""

    def spelled_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        """These keys as `scan` would return them. Raises BadRecord for one that cannot be a key."""

    def spelled(self, values: pa.StructArray) -> list[tuple[bytes | None, ...] | None]:
        """These rows as `scan` and `fetch` would return them."""

    def load_note(self, name: str) -> str | None:
        """The note that `save_note` stored beside the rows. The name must begin with NOTES."""

    def save_note(self, name: str, note: str, replacing: str | None) -> bool:
        """Stores the note if the present one is `replacing`, and returns whether it was."""

    def close(self) -> None: ...

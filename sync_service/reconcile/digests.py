"""Reduces rows to numbers, a few bytes per row and one sum per bucket, so that two equal sides are found equal without
holding their rows in memory.

Hashes are Python's own, with a random key per process: they take a tenth of the time of a cryptographic hash, and
nobody can construct collisions. They mean nothing to another process.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sync_service.reconcile.stamps import STAMP, Integers, Stamps

Numbers = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Indexes = npt.NDArray[np.intp]

BUCKETS = 4096
# Rows are folded in so many parts, by hash, so that the memory for sorting is needed for one part at a time.
_SHARDS = 16
_FOLDED = 200_000

Texts = tuple[bytes | None, ...] | None
"""A row in its store's canonical text form; None: no row."""


def hashes_of(keys: Sequence[bytes]) -> Numbers:
    """64 bits per key. Two given keys collide with 1 in 2^64: among a hundred million keys the chance is 1 in 4,000."""
    return np.fromiter(map(hash, keys), np.int64, len(keys)).view(np.uint64)


def digests_of(rows: Sequence[Texts]) -> Numbers:
    """64 bits per row; 0 if there is none."""
    digests = (0 if row is None else hash(row) or 1 for row in rows)
    return np.fromiter(digests, np.int64, len(rows)).view(np.uint64)


def bucket_sums(hashes: Numbers, versions: Stamps, digests: Numbers) -> Numbers:
    """For each bucket the sum over its rows, in any order. The sums of both sides are equal if their rows are."""
    sums = np.zeros(BUCKETS, np.uint64)
    numbers, releases = versions["version"].astype(np.uint64), versions["release"].astype(np.uint64)
    mixed = _mix(_mix(hashes ^ _mix(numbers ^ (_mix(releases) if releases.any() else releases))) ^ digests)
    np.add.at(sums, buckets_of(hashes), mixed)
    return sums


def buckets_of(hashes: Numbers) -> Indexes:
    return (hashes & np.uint64(BUCKETS - 1)).astype(np.intp)


def found_in(sorted_hashes: Numbers, hashes: Numbers) -> tuple[Indexes, Flags]:
    """For each hash its index in the sorted ones, and whether it is there."""
    if not len(sorted_hashes):
        return np.zeros(len(hashes), np.intp), np.zeros(len(hashes), bool)
    places = np.minimum(np.searchsorted(sorted_hashes, hashes), len(sorted_hashes) - 1)
    return places, sorted_hashes[places] == hashes


@dataclass(frozen=True)
class Rows:
    """Records of the topic: the order of the versions of each key, and what they contain."""

    hashes: Numbers
    settled: Flags
    """Records from before the generation: their timestamps decide between partitions, as elsewhere in the product."""
    ranks: Integers
    """Sort order of a key's records: the version, or the timestamp if settled."""
    places: Integers
    versions: Stamps
    digests: Numbers
    living: Flags
    counted: Flags
    """The version comes from the offset, not from a header or a column. Then no other record has it, and the release,
    which decides between equal versions, counts as 0."""

    def __len__(self) -> int:
        return len(self.hashes)

    def where(self, chosen: Indexes | Flags) -> "Rows":
        return Rows(*(getattr(self, name)[chosen] for name in Rows.__dataclass_fields__))


@dataclass(frozen=True)
class Expected:
    """The newest row of every key of the topic, including deleted ones; sorted by hash."""

    hashes: Numbers
    versions: Stamps
    digests: Numbers
    living: Flags
    counted: Flags

    def __len__(self) -> int:
        return len(self.hashes)

    def where(self, chosen: Indexes) -> "Expected":
        """`chosen`: indexes in ascending order, each once."""
        if len(chosen) == len(self):  # all are chosen: a copy would double the memory
            return self
        return Expected(*(getattr(self, name)[chosen] for name in Expected.__dataclass_fields__))


class Folding:
    """Keeps one row per key of all that is added: the one that the store should have."""

    def __init__(self) -> None:
        self._shards: list[Rows] = [empty() for _ in range(_SHARDS)]
        self._pending: list[Rows] = []
        self._count = 0

    def add(self, rows: Rows) -> None:
        self._pending.append(rows)
        self._count += len(rows)
        if self._count >= _FOLDED:
            self._fold()

    def expected(self) -> Expected:
        """The result; nothing can be added any more."""
        self._fold()
        shards, self._shards = self._shards, []
        names = Expected.__dataclass_fields__
        return Expected(*(np.concatenate([getattr(shard, name) for shard in shards]) for name in names))

    def _fold(self) -> None:
        """Merges the pending rows shard by shard, so that only a small part is sorted at a time."""
        if not self._pending:
            return
        rows = joined(self._pending)
        self._pending, self._count = [], 0
        numbers = (rows.hashes >> np.uint64(60)).astype(np.uint8)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(_SHARDS), side="right").tolist()
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > start:
                self._shards[number] = newest(joined([self._shards[number], rows.where(order[start:end])]))


def joined(parts: Sequence[Rows]) -> Rows:
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__dataclass_fields__))


def newest(rows: Rows) -> Rows:
    """One row per key, the one that the store should have; sorted by hash. `rows` must not be empty."""
    releases = rows.versions["release"]
    order = np.lexsort((rows.places, *([releases] if releases.any() else []), rows.ranks, ~rows.settled, rows.hashes))
    last = np.append(rows.hashes[order][1:] != rows.hashes[order][:-1], True)
    return rows.where(order[last])


def empty() -> Rows:
    numbers, integers, flags = np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, bool)
    return Rows(numbers, flags, integers, integers, np.zeros(0, STAMP), numbers, flags, flags)


def _mix(x: Numbers) -> Numbers:
    """The finaliser of splitmix64: every input bit changes about half of the output bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

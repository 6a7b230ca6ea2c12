"""Rows boiled down to numbers: some bytes a row and one sum a bucket, so that equal sides are found equal without
holding rows of either in memory."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

BUCKETS = 4096

Texts = tuple[bytes | None, ...] | None
"""A row as its store spells it; None: there is none."""


def hashes_of(keys: Sequence[bytes]) -> Numbers:
    """64 bits a key. Two keys with the same are one in 2^64: for a hundred million keys a chance of 1 in 4,000."""
    return np.fromiter((_hash(key) for key in keys), np.uint64, len(keys))


def digests_of(rows: Sequence[Texts]) -> Numbers:
    """64 bits a row; 0 where there is none."""
    return np.fromiter((0 if row is None else _hash(repr(row).encode()) for row in rows), np.uint64, len(rows))


def bucket_sums(hashes: Numbers, versions: Integers, digests: Numbers) -> Numbers:
    """For each bucket the sum of its rows, whatever their order. Both sides' sums are equal if their rows are."""
    sums = np.zeros(BUCKETS, np.uint64)
    mixed = _mix(_mix(hashes ^ _mix(versions.astype(np.uint64))) ^ digests)
    np.add.at(sums, buckets_of(hashes), mixed)
    return sums


def buckets_of(hashes: Numbers) -> npt.NDArray[np.intp]:
    return (hashes & np.uint64(BUCKETS - 1)).astype(np.intp)


@dataclass(frozen=True)
class Rows:
    """Where a record of the topic stands in the order of its key's versions, and what it says."""

    hashes: Numbers
    settled: Flags
    """Of the generation before: there the time decides between partitions, as everywhere in the product."""
    ranks: Integers
    """Among those that are not settled the version, among the settled the timestamp."""
    places: Integers
    versions: Integers
    digests: Numbers
    living: Flags

    def __len__(self) -> int:
        return len(self.hashes)

    def where(self, chosen: npt.NDArray[np.intp] | Flags) -> "Rows":
        return Rows(
            self.hashes[chosen],
            self.settled[chosen],
            self.ranks[chosen],
            self.places[chosen],
            self.versions[chosen],
            self.digests[chosen],
            self.living[chosen],
        )


def newest(parts: Sequence[Rows]) -> Rows:
    """One row a key, the one that the store should have; sorted by hash."""
    rows = Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__dataclass_fields__))
    order = np.lexsort((rows.places, rows.ranks, ~rows.settled, rows.hashes))
    last = np.append(rows.hashes[order][1:] != rows.hashes[order][:-1], True) if len(rows) else np.zeros(0, bool)
    return rows.where(order[last])


def empty() -> Rows:
    return Rows(
        np.zeros(0, np.uint64),
        np.zeros(0, bool),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.uint64),
        np.zeros(0, bool),
    )


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _mix(x: Numbers) -> Numbers:
    """The finaliser of splitmix64: every bit of the input changes about half of the output's."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

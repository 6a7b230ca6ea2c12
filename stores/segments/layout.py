"""The layout of a segment: records of fixed width, one after the other, little-endian.

slots      a hash table with open addressing, 32 bits each: the number of an entry plus one, in as many bits as the
           number of slots has, and above it bits of the key's hash; 0 is empty
entries    one for each key, with the version that answers a look-up without a time or pin
versions   all versions of the keys that have more than one, by (timestamp, partition, offset)
keys       the bytes of all keys, one after the other
columns    the decoded rows, see loops/columns.py; a version's `row` is the place in them

The cost of a look-up is the number of places in memory that it touches, since each is a CPU cache miss and a TLB miss.
So an entry is one cache line and has everything that a look-up of the newest version needs, including a short key: a
hit touches one slot, one entry, and one place in each column.
"""

import numpy as np

FORMAT = 2

NO_ROW = -1
"""The row of a tombstone."""

ENTRY = np.dtype(
    [
        ("head", "<u8"),  # the first sixteen bytes of the key: see hashing.word_at
        ("more", "<u8"),
        ("key_start", "<i8"),
        ("offset", "<i8"),
        ("timestamp", "<i8"),
        ("key_length", "<i4"),
        ("row", "<i4"),
        ("partition", "<i4"),
        ("flags", "<i4"),
        ("versions_count", "<i4"),  # 0: the entry's version is the only one
        ("versions_start", "<i4"),
    ],
    align=True,
)

assert ENTRY.itemsize == 64  # noqa: S101 - one cache line

VERSION = np.dtype([("offset", "<i8"), ("timestamp", "<i8"), ("row", "<i4"), ("partition", "<i4")], align=True)

SPLIT = 1
"""Versions of this key are in several partitions, here or in an older segment: a fault of the topic."""
ORDERED = 2
"""One partition, and timestamps never went back: so the versions are also in the order of offsets."""

MOST_ROWS = (1 << 31) - 1


def slot_count(entries: int) -> int:
    """A power of two that leaves between a third and two thirds of the slots empty."""
    return max(8, 1 << (entries * 3 // 2).bit_length())

"""What stands in a segment: records of fixed width, one after the other, little-endian.

slots      a hash table with open addressing, 32 bits each: the number of an entry plus one, in as many bits as the
           number of slots has, and above it bits of the key's hash; 0 is empty
entries    one for each key, with the version that answers a question about now
versions   all versions of the keys that have more than one, by (timestamp, partition, offset)
keys       the bytes of all keys, one after the other
columns    the decoded rows, see columns.py; a version's `row` is the place in them

What costs time is the number of places in memory that a look-up touches, since each is a miss of the processor's caches
and of its table of pages. So an entry is one line of the cache and has all that a question about now needs, a short key
included: a hit touches one slot, one entry, and one place in each column.
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
        ("versions_count", "<i4"),  # 0: the one in the entry is all
        ("versions_start", "<i4"),
    ],
    align=True,
)

assert ENTRY.itemsize == 64  # noqa: S101 - one line of the cache

VERSION = np.dtype([("offset", "<i8"), ("timestamp", "<i8"), ("row", "<i4"), ("partition", "<i4")], align=True)

SPLIT = 1
"""Versions of this key stand in several partitions, here or in an older segment: a fault of the topic."""
ORDERED = 2
"""One partition, and timestamps that never went back: the versions are by offset, too."""

MOST_ROWS = (1 << 31) - 1


def slot_count(entries: int) -> int:
    """A power of two that leaves between a third and two thirds of the slots empty."""
    return max(8, 1 << (entries * 3 // 2).bit_length())

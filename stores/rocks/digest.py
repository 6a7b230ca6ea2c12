"""A digest of a table's newest versions that does not depend on their order: a sum modulo 2^64. A publication adds the
new versions and subtracts the replaced ones. It is stored, so it must never change."""

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_MASK = (1 << 64) - 1


def digest_of(keys: Sequence[bytes], partitions: npt.ArrayLike, offsets: npt.ArrayLike) -> int:
    """The sum of a 64-bit hash of each (key, partition, offset)."""
    if not len(keys):
        return 0
    hashes = np.fromiter(map(zlib.crc32, keys), np.uint64, len(keys))
    hashes ^= np.asarray(partitions, np.int64).astype(np.uint64) << np.uint64(32)
    mixed = _mix(_mix(hashes) ^ np.asarray(offsets, np.int64).astype(np.uint64))
    return int(mixed.sum(dtype=np.uint64))


def added(digest: int, plus: int, minus: int) -> int:
    return (digest + plus - minus) & _MASK


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the input changes about half of the output's."""
    x = (x + np.uint64(0x9E3779B97F4A7C15)) & np.uint64(_MASK)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

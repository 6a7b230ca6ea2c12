"""A Bloom filter over the keys of segments: most keys that are in none of them need not be looked up there."""

from collections.abc import Callable, Sequence

import numpy as np

from stores.segments.loops.compiled import Hashes, Integers, Word, compiled, inlined
from stores.segments.segment import Segment

_BITS_A_KEY = 16
_SMALLEST = 1 << 10


class KeyFilter:
    """Grows with the segments. Each reader has its own: two bytes per key are cheaper to compute than to share."""

    def __init__(self, marks: Callable[[Segment], Hashes] = Segment.hashes) -> None:
        """`marks` returns one hash for each key of a segment."""
        self._marks = marks
        self.bits: Hashes = np.zeros(_SMALLEST, np.uint64)
        self._added: set[str] = set()
        self._count = 0

    def cover(self, segments: Sequence[Segment]) -> None:
        """Makes it cover the keys of these segments. Keys of earlier ones may stay: they only cost a vain look-up."""
        new = [segment for segment in segments if segment.written.name not in self._added]
        new_keys = sum(len(segment.entries) for segment in new)
        names = {segment.written.name for segment in segments}
        if (self._count + new_keys) * _BITS_A_KEY > len(self.bits) * 64 or not names & self._added:
            new = list(segments)
            self._count, new_keys = 0, sum(len(segment.entries) for segment in new)
            self.bits = np.zeros(max(_SMALLEST, 1 << (new_keys * _BITS_A_KEY // 64).bit_length()), np.uint64)
        for segment in new:
            _add(self._marks(segment), self.bits)
        self._count += new_keys
        self._added = names

    def may_have(self, hashes: Hashes, asked: Integers) -> Integers:
        """The asked indexes whose keys may be in one of the segments."""
        return _passing(hashes, asked, self.bits) if self._added else asked[:0]


@inlined
def may_have(bits: Hashes, value: Word) -> bool:
    """Whether a key with this hash may have been added: both of its bits are set."""
    mask = np.uint64(len(bits) * 64 - 1)
    one, other = (value >> np.uint64(20)) & mask, (value >> np.uint64(42)) & mask
    both = (bits[one >> np.uint64(6)] >> (one & np.uint64(63))) & (
        bits[other >> np.uint64(6)] >> (other & np.uint64(63))
    )
    return bool(both & np.uint64(1))


@compiled
def _passing(hashes: Hashes, asked: Integers, bits: Hashes) -> Integers:
    chosen = np.empty(len(asked), np.int64)
    count = 0
    for i in range(len(asked)):
        chosen[count] = asked[i]
        count += 1 if may_have(bits, hashes[asked[i]]) else 0
    return chosen[:count]


@compiled
def _add(hashes: Hashes, bits: Hashes) -> None:
    mask = np.uint64(len(bits) * 64 - 1)
    for i in range(len(hashes)):
        for shift in (20, 42):
            bit = (hashes[i] >> np.uint64(shift)) & mask
            bits[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))

"""Networks as keys of a segment, and the networks of a table that may contain an address.

The key of a network is its prefix length and its address, seventeen bytes, as in RocksDB. An address is looked up in
the networks of every prefix length of the table; a filter over all keys leaves only the few that probably exist.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stores.segments.loops.addresses import read_addresses
from stores.segments.loops.compiled import (
    Bytes,
    Flags,
    Hashes,
    Integers,
    Records,
    Word,
    compiled,
    fold,
    inlined,
    load64,
    store64,
)
from stores.segments.loops.hashing import hash_of
from stores.segments.probes import Probes
from stores.segments.read.key_filter import may_have
from stores.segments.segment import Segment

_KEY = 17
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)


def _masks() -> npt.NDArray[np.uint64]:
    """By prefix length: the mask of an address, in two words with the byte order of a key."""
    words = [((1 << 128) - (1 << (128 - length))) for length in range(129)]
    return np.frombuffer(b"".join(word.to_bytes(16, "big") for word in words), "<u8").reshape(129, 2)


_MASKS = _masks()


@dataclass(frozen=True, slots=True)
class Addresses:
    """Parsed addresses to look up."""

    high: Hashes
    """The words in the byte order of a key."""
    low: Hashes
    is_v4: Flags
    is_good: Flags

    @classmethod
    def of(cls, probes: Probes) -> "Addresses":
        high, low, is_good = read_addresses(probes.data, probes.starts, probes.lengths)
        is_v4 = (high == 0) & (low >> np.uint64(32) == 0xFFFF)
        return cls(high.byteswap(), low.byteswap(), is_v4, is_good)

    def candidates(self, asked: Integers, lengths: Sequence[int], filter_bits: Hashes) -> tuple[Probes, Integers]:
        """The keys of the networks around the asked addresses that pass the filter, for each address the longest first,
        and the address that each key belongs to."""
        owners, keys, hashes = _around(
            self.high, self.low, self.is_v4, asked, np.array(lengths, np.int64), _MASKS, filter_bits
        )
        starts = np.arange(len(owners)) * _KEY
        keys.flags.writeable = False  # so that the compiled loops always get the same type
        return Probes(keys, starts, np.full(len(owners), _KEY), hashes, np.arange(len(owners))), owners


@inlined
def _mark(length: Word, high: Word, low: Word) -> Word:
    """A quick hash of a network, only for the filter: each address is tried with every length."""
    return fold(high ^ (np.uint64(length) * _SPREAD), low ^ _MIX)


@compiled
def _marks(starts: Integers, keys: Bytes) -> Hashes:
    marks = np.zeros(len(starts), np.uint64)
    for i in range(len(starts)):
        at = starts[i]
        if at >= 0 and at + _KEY <= len(keys):
            marks[i] = _mark(np.int64(keys[at]), load64(keys, at + 1), load64(keys, at + 9))
    return marks


def network_marks(segment: Segment) -> Hashes:
    """The hashes of a segment's networks for the filter."""
    return _marks(segment.entries["key_start"].astype(np.int64), segment.keys)


@compiled
def _around(
    high: Hashes, low: Hashes, is_v4: Flags, asked: Integers, lengths: Integers, masks: Hashes, filter_bits: Hashes
) -> tuple[Integers, Bytes, Hashes]:
    room = 4 * len(asked) + len(lengths)
    owners = np.empty(room, np.int64)
    hashes = np.empty(room, np.uint64)
    keys = np.empty(room * _KEY, np.uint8)
    count = 0
    for i in range(len(asked)):
        which = asked[i]
        if count + len(lengths) > room:
            room *= 2
            owners = np.append(owners, np.empty(room - len(owners), np.int64))
            hashes = np.append(hashes, np.empty(room - len(hashes), np.uint64))
            keys = np.append(keys, np.empty(room * _KEY - len(keys), np.uint8))
        for length in lengths:
            if is_v4[which] and length < 96:
                continue  # an IPv4 address is in no IPv6 network
            high_bits, low_bits = high[which] & masks[length, 0], low[which] & masks[length, 1]
            if may_have(filter_bits, _mark(length, high_bits, low_bits)):
                at = count * _KEY
                keys[at] = length
                store64(keys, at + 1, high_bits)
                store64(keys, at + 9, low_bits)
                owners[count], hashes[count] = which, hash_of(keys, at, _KEY)
                count += 1
    return owners[:count].copy(), keys[: count * _KEY].copy(), hashes[:count].copy()


@compiled
def choose_longest(owners: Integers, candidates: Records, answers: Records) -> None:
    """Chooses the longest network around each address that is not deleted; else the longest deleted one."""
    for i in range(len(owners)):
        candidate, answer = candidates[i], answers[owners[i]]
        if candidate.segment < 0 or (answer.segment >= 0 and (answer.row >= 0 or candidate.row < 0)):
            continue
        answer.segment = candidate.segment
        answer.row = candidate.row
        answer.partition = candidate.partition
        answer.offset = candidate.offset
        answer.timestamp = candidate.timestamp

"""The hash of keys and the checksum of files. Both are stored in files, so neither may change without a new name."""

from functools import cache
from typing import Any

import numpy as np

from stores.segments.loops.compiled import (
    Bytes,
    Hashes,
    Integers,
    Records,
    Word,
    compiled,
    fold,
    inlined,
    load32,
    load64,
)

_NAME = "fold64-1"

_SEED = np.uint64(0x9E3779B97F4A7C15)  # odd numbers whose bits look random
_STEP = np.uint64(0xD6E8FEB86659FD93)
_LENGTH = np.uint64(0xA0761D6478BD642F)
_LAST = np.uint64(0xE7037ED1A0B428DB)


@inlined
def word_at(data: Bytes, start: int, length: int) -> Word:
    """Up to eight bytes of a key as one word. Keys of the same length get the same word only if they are equal."""
    if length >= 8:
        return load64(data, start)
    if length >= 4:
        return load32(data, start) | (load32(data, start + length - 4) << np.uint64(32))
    if length == 0:
        return np.uint64(0)
    return (
        np.uint64(data[start])
        | (np.uint64(data[start + (length >> 1)]) << np.uint64(8))
        | (np.uint64(data[start + length - 1]) << np.uint64(16))
    )


@inlined
def hash_of(data: Bytes, start: int, length: int) -> Word:
    """The hash of one key."""
    value = fold(np.uint64(length) ^ _SEED, _LENGTH)
    at, left = start, length
    while left > 8:
        value = fold(value ^ load64(data, at), _STEP)
        at += 8
        left -= 8
    value = fold(value ^ word_at(data, at, left), _STEP)
    return fold(value ^ _SEED, _LAST)


@inlined
def head_of(data: Bytes, start: int, length: int) -> Word:
    """The first eight bytes of a key."""
    return word_at(data, start, min(length, 8))


@inlined
def more_of(data: Bytes, start: int, length: int) -> Word:
    """The eight bytes after those."""
    return word_at(data, start + 8, min(length - 8, 8)) if length > 8 else np.uint64(0)


@inlined
def are_equal(left: Bytes, left_start: int, right: Bytes, right_start: int, length: int) -> bool:
    """Whether two pieces of keys have the same bytes."""
    rest = length
    while rest >= 8:
        at = length - rest
        if load64(left, left_start + at) != load64(right, right_start + at):
            return False
        rest -= 8
    at = length - rest
    return bool(word_at(left, left_start + at, rest) == word_at(right, right_start + at, rest))


@compiled
def hash_keys(data: Bytes, starts: Integers, lengths: Integers) -> Hashes:
    """The hashes of keys in `data`."""
    hashes = np.empty(len(starts), np.uint64)
    for index in range(len(starts)):
        hashes[index] = hash_of(data, starts[index], lengths[index])
    return hashes


@compiled
def hash_entries(entries: Records, keys: Bytes) -> Hashes:
    """The hashes of the keys of a segment's entries. Ends at the first entry that points beyond the keys."""
    hashes = np.empty(len(entries), np.uint64)
    for index in range(len(entries)):
        start: Any = entries[index].key_start
        length: Any = np.int64(entries[index].key_length)
        if start < 0 or length < 0 or start > len(keys) - length:
            return hashes[:index]
        hashes[index] = hash_of(keys, start, length)
    return hashes


@compiled
def _checksum(data: Bytes) -> Word:
    # Four chains in parallel: a single one would wait for its own multiplications.
    a, b, c, d = _SEED, _STEP, _LENGTH, _LAST
    at, end = 0, len(data)
    while at + 32 <= end:
        a = fold(a ^ load64(data, at), _STEP)
        b = fold(b ^ load64(data, at + 8), _STEP)
        c = fold(c ^ load64(data, at + 16), _STEP)
        d = fold(d ^ load64(data, at + 24), _STEP)
        at += 32
    return hash_of(data, at, end - at) ^ fold(a ^ _LAST, _SEED) ^ fold(b, _LAST) ^ fold(c, _SEED) ^ fold(d, _LENGTH)


def checksum(data: Bytes) -> int:
    """A checksum of bytes. It detects damage, not manipulation."""
    return int(_checksum(data)) ^ len(data)


@cache
def hash_identity() -> str:
    """Names the hash, with a test value: if another machine or release hashes differently, the name differs too."""
    sample = np.frombuffer(bytes(range(256)), np.uint8)
    lengths = np.arange(0, 100)
    hashes = hash_keys(sample, lengths, lengths)
    return f"{_NAME}:{checksum(hashes.view(np.uint8)):016x}"

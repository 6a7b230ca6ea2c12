"""The loops of a look-up: find keys in a segment, and the newest version of each.

All of them take batches, in columns, and fill the caller's columns. They must check everything that they read from a
segment against its bounds: a damaged file must cause an error, never a read beyond the mapping.
"""

from typing import Any

import numpy as np

from stores.segments.loops.compiled import Bytes, Flags, Hashes, Integers, Records, compiled
from stores.segments.loops.hashing import are_equal, head_of, more_of

_BLOCK = 256
_NOT_FOUND = -1


@compiled
def find(
    hashes: Hashes,
    data: Bytes,
    starts: Integers,
    lengths: Integers,
    asked: Integers,
    slots: Hashes,
    entries: Records,
    keys: Bytes,
) -> Integers:
    """For each index in `asked` the number of the key's entry; -1 if there is none, -2 if the segment is corrupt.

    Each step processes a block of keys before the next step begins: so the processor waits for the memory of many keys
    at once instead of one after the other.
    """
    mask = len(slots) - 1
    number_bits, mark_bits = np.uint64(mask), np.uint64(0xFFFFFFFF ^ mask)
    found = np.empty(len(asked), np.int64)
    words = np.empty(_BLOCK, np.uint64)
    places = np.empty(_BLOCK, np.int64)
    heads = np.empty(_BLOCK, np.uint64)
    for block in range(0, len(asked), _BLOCK):
        size = min(_BLOCK, len(asked) - block)
        for i in range(size):
            place: Any = np.int64(hashes[asked[block + i]]) & mask
            places[i] = place
            words[i] = slots[place]
        for i in range(size):
            mark = (hashes[asked[block + i]] >> np.uint64(32)) & mark_bits
            word, place = words[i], places[i]
            for _ in range(mask):
                if word == np.uint64(0) or word & mark_bits == mark:
                    break
                place = (place + 1) & mask
                word = np.uint64(slots[place])
            places[i] = place
            number: Any = np.int64(word & number_bits) - 1
            found[block + i] = number if number < len(entries) else -2
        for i in range(size):
            heads[i] = entries[max(found[block + i], 0)].head if len(entries) else np.uint64(0)
        for i in range(size):
            number = found[block + i]
            if number < 0:
                continue
            which = asked[block + i]
            mark = (hashes[which] >> np.uint64(32)) & mark_bits
            head = heads[i]
            for _ in range(mask):
                entry = entries[number]
                start, length = entry.key_start, lengths[which]
                if (
                    entry.key_length == length
                    and head == head_of(data, starts[which], length)
                    and entry.more == more_of(data, starts[which], length)
                ):
                    if length <= 16:
                        break
                    if start < 0 or start + length > len(keys):
                        number = -2
                        break
                    if are_equal(data, starts[which] + 16, keys, start + 16, length - 16):
                        break
                # Another key with the same mark: go on to the next entry with this mark.
                number = _NOT_FOUND
                for _ in range(mask):
                    places[i] = (places[i] + 1) & mask
                    word = np.uint64(slots[places[i]])
                    if word == np.uint64(0):
                        break
                    if word & mark_bits == mark:
                        number = np.int64(word & number_bits) - 1
                        break
                if number >= len(entries):
                    number = -2
                if number < 0:
                    break
                head = entries[number].head
            found[block + i] = number
    return found


@compiled
def latest(
    asked: Integers, found: Integers, entries: Records, rows: int, segment: int, answers: Records, doubts: Flags
) -> bool:
    """The newest version of each key that was found in this segment. Returns False if the segment is corrupt.

    `doubts` marks the keys for which an older segment must be asked as well.
    """
    for i in range(len(asked)):
        number = found[i]
        if number == _NOT_FOUND:
            continue
        if number < 0:
            return False
        entry = entries[number]
        if entry.row >= rows:
            return False
        answer = answers[asked[i]]
        answer.segment = segment
        answer.row = entry.row
        answer.partition = entry.partition
        answer.offset = entry.offset
        answer.timestamp = entry.timestamp
        # There is nothing older than the oldest segment, so it leaves no doubt.
        doubts[asked[i]] = segment > 0 and entry.flags & 1 != 0
    return True

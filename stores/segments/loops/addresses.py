"""Parses batches of addresses, exactly as strict as the standard library's `ipaddress`.

An address is two words, most significant first, IPv4 as its v4-mapped address (::ffff:0:0/96): see stores/networks.py.
"""

from typing import Any

import numpy as np

from stores.segments.loops.compiled import Bytes, Flags, Hashes, Integers, Word, compiled, inlined

_COLON, _DOT, _ZERO, _NINE = ord(":"), ord("."), ord("0"), ord("9")


@inlined
def _read_v4(data: Bytes, start: int, end: int) -> int:
    """The address as a number; -1 if it is not four numbers with dots."""
    value: Any = 0
    part: Any = 0
    digits, parts = 0, 0
    for at in range(start, end + 1):
        byte = data[at] if at < end else np.uint8(_DOT)
        if _ZERO <= byte <= _NINE:
            if digits == 3 or (digits == 1 and part == 0):
                return -1  # too long, or a leading zero: some parsers read that as octal
            part = part * 10 + np.int64(byte) - _ZERO
            digits += 1
        elif byte == _DOT and digits > 0 and part < 256 and parts < 4:
            value = value * 256 + part
            part, digits, parts = 0, 0, parts + 1
        else:
            return -1
    return value if parts == 4 else -1


@inlined
def _hex_digit(byte: Any) -> Any:
    if _ZERO <= byte <= _NINE:
        return byte - _ZERO
    lower = byte | 0x20
    return lower - ord("a") + 10 if ord("a") <= lower <= ord("f") else -1


@inlined
def _read_v6(data: Bytes, start: int, end: int, groups: Integers) -> int:
    """Fills in the eight groups of sixteen bits. Returns whether it is an address."""
    count, gap, at = 0, -1, start
    if end - start >= 2 and data[start] == _COLON and data[start + 1] == _COLON:
        gap, at = 0, start + 2
    while at < end:
        stop = at
        is_v4 = False
        while stop < end and data[stop] != _COLON:
            is_v4 |= data[stop] == _DOT
            stop += 1
        if is_v4:
            v4 = _read_v4(data, at, stop)
            if stop != end or v4 < 0 or count > 6:
                return 0
            groups[count], groups[count + 1] = v4 >> 16, v4 & 0xFFFF
            count += 2
            break
        if stop == at or stop - at > 4 or count == 8:
            return 0
        group = 0
        for place in range(at, stop):
            digit = _hex_digit(np.int64(data[place]))
            if digit < 0:
                return 0
            group = group * 16 + digit
        groups[count] = group
        count += 1
        at = stop
        if at < end:  # a colon: a group must follow, or a second colon (the zeros)
            at += 1
            if at == end:
                return 0
            if data[at] == _COLON:
                if gap >= 0:
                    return 0
                gap = count
                at += 1
    if gap < 0:
        return 1 if count == 8 else 0
    if count > 7:
        return 0
    moved = count - gap
    for i in range(moved):
        groups[7 - i] = groups[count - 1 - i]
    for i in range(gap, 8 - moved):
        groups[i] = 0
    return 1


@inlined
def _read(data: Bytes, start: int, end: int, groups: Integers) -> int:
    """Fills in the groups. Returns 4 or 6, or 0 if it is not an address."""
    for at in range(start, end):
        if data[at] == _COLON:
            return 6 if _read_v6(data, start, end, groups) else 0
    v4 = _read_v4(data, start, end)
    if v4 < 0:
        return 0
    groups[:5] = 0
    groups[5], groups[6], groups[7] = 0xFFFF, v4 >> 16, v4 & 0xFFFF
    return 4


@inlined
def _word(groups: Integers, first: int) -> Word:
    value = np.uint64(0)
    for i in range(4):
        value = (value << np.uint64(16)) | np.uint64(groups[first + i])
    return value


@compiled
def read_addresses(data: Bytes, starts: Integers, lengths: Integers) -> tuple[Hashes, Hashes, Flags]:
    """The two words of each address, and whether it is valid."""
    count = len(starts)
    high, low = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    is_good = np.zeros(count, np.bool_)
    groups = np.zeros(8, np.int64)
    for i in range(count):
        if _read(data, starts[i], starts[i] + lengths[i], groups) != 0:
            high[i], low[i] = _word(groups, 0), _word(groups, 4)
            is_good[i] = True
    return high, low, is_good

"""One compiled pass over JSON text: are the names of each object certainly different, and is all within bounds?"""

from typing import Any

import numpy as np

from stores.segments.loops.compiled import Bytes, Hashes, Integers, compiled, fold, load64

DEEPEST = 128
"""Brackets that may be open at once."""
_MOST_NAMES = 256
"""Of an object. Each is compared with those before it."""
_LONGEST_NUMBER = 4_000
"""Digits. Python converts no whole number of more than 4,300."""

_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
_MIX, _END = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)

_hashes = np.empty(DEEPEST * _MOST_NAMES, np.uint64)
_firsts = np.empty(DEEPEST + 1, np.int64)


def are_names_plain(text: bytes) -> bool:
    """For JSON text whose grammar others check: True if no object has a name twice, nothing is nested deeper than
    `DEEPEST`, and no number is very long. False says only that one has to look closer, as with escapes in a name.

    For one thread.
    """
    return _are_names_plain(np.frombuffer(text, np.uint8), _hashes, _firsts)


def compile_pass() -> None:
    """Does it once, so that no request waits for the compiler, which takes seconds if no code is kept on disk."""
    are_names_plain(b'[{"a": 1}]')


@compiled
def _are_names_plain(text: Bytes, hashes: Hashes, firsts: Integers) -> bool:
    # `firsts[depth]`: where in `hashes` the names of the object begin that is open at this depth. `top`: their end.
    at: Any = 0
    top = depth = 0
    end = len(text)
    while at < end:
        byte = text[at]
        if byte == 0x22:
            start = at + 1
            at = start
            mixed, tail = _END, np.uint64(0)
            is_escaped = False
            while at + 8 <= end:
                word = load64(text, at)
                quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
                if (((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)) & _HIGHS:
                    break
                mixed = fold(mixed ^ word, _MIX)
                at += 8
            shift = 0
            while at < end and text[at] != 0x22:
                if text[at] == 0x5C:
                    is_escaped = True
                    at += 1
                tail |= np.uint64(text[at] if at < end else 0) << np.uint64(shift & 63)
                shift += 8
                at += 1
            if at >= end:
                return False
            length = np.uint64(at - start)
            at += 1
            while at < end and (text[at] == 0x20 or text[at] == 0x0A or text[at] == 0x0D or text[at] == 0x09):
                at += 1
            if at < end and text[at] == 0x3A:
                at += 1
                if is_escaped or depth == 0 or top - firsts[depth] >= _MOST_NAMES:
                    return False
                name = fold(fold(mixed ^ tail, _MIX) ^ length, _END)
                for other in range(firsts[depth], top):
                    if hashes[other] == name:
                        return False
                hashes[top] = name
                top += 1
        elif byte == 0x7B or byte == 0x5B:
            if depth == DEEPEST:
                return False
            depth += 1
            firsts[depth] = top
            at += 1
        elif byte == 0x7D or byte == 0x5D:
            if depth == 0:
                return False
            top = firsts[depth]
            depth -= 1
            at += 1
        elif 0x30 <= byte <= 0x39:
            start = at
            while at < end and 0x30 <= text[at] <= 0x39:
                at += 1
            if at - start > _LONGEST_NUMBER:
                return False
        else:
            at += 1
    return True

"""What can be seen of JSON values without a parser, in all bytes of a batch at once. They need not be JSON."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.codecs.rows import Indexes, extents

_Bytes = npt.NDArray[np.uint8]

_SPACE = np.zeros(256, np.bool_)
_SPACE[list(b" \t\r\n")] = True
_MOST_SPACE = 64
"""Each step trims a byte of all values: one value with a megabyte of space must not hold up the others."""


def trimmed(values: pa.BinaryArray) -> pa.BinaryArray:
    """The values without white space around them; one with very much of it keeps some."""
    data, starts, ends = extents(values)
    firsts = _walked(data, starts, ends, 1)
    lasts = _walked(data, ends - 1, firsts - 1, -1) + 1
    if np.array_equal(firsts, starts) and np.array_equal(lasts, ends):
        return values
    cuts = np.empty(2 * len(values) + 1, np.int32)
    cuts[0:-1:2], cuts[1::2], cuts[-1] = firsts, lasts, lasts[-1]
    # Every second one is a value, the others are what is between them.
    pieces = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(data)])
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pieces.take(pa.array(2 * np.arange(len(values)), mask=mask))


def _walked(data: _Bytes, places: Indexes, bounds: Indexes, step: int) -> Indexes:
    """From each place on, the first that is no white space, but not beyond its bound."""
    places = places.copy()
    going = np.flatnonzero(places != bounds)
    for _ in range(_MOST_SPACE):
        going = going[_SPACE[data[places[going]]]]
        if not len(going):
            break
        places[going] += step
        going = going[places[going] != bounds[going]]
    return places


def depths(values: pa.BinaryArray) -> Indexes:
    """How many brackets are open at once at most, outside of strings. Of what is no JSON it is some number."""
    data, starts, ends = extents(values)
    begin = int(starts[0])
    content, starts = data[begin : int(ends[-1])], starts - begin
    without_case = content | 0x20  # [ and { become the same, and so do ] and }
    marks = np.flatnonzero((content == ord('"')) | (without_case == ord("{")) | (without_case == ord("}")))
    kinds = content[marks]
    is_quote = kinds == ord('"')
    is_quote[is_quote] = ~are_escaped(marks[is_quote], np.flatnonzero(content == ord("\\")))
    first = np.searchsorted(marks, starts)
    # What the value before ends with escapes nothing of the next one.
    is_quote[np.searchsorted(marks, starts[np.isin(starts, marks[kinds == ord('"')])])] = True
    # Counted from the start of each value: one that ends inside of a string must not turn the next one inside out.
    quotes = _since(np.cumsum(is_quote), first)
    steps = np.where((kinds == ord('"')) | (quotes % 2 == 1), 0, (kinds & 2).astype(np.int64) - 1)
    open_now = _since(np.cumsum(steps), first)
    found = np.zeros(len(values), np.int64)
    has_marks = np.diff(first, append=len(marks)) > 0
    if has_marks.any():
        found[has_marks] = np.maximum.reduceat(open_now, first[has_marks])
    return found


def _since(sums: Indexes, first: Indexes) -> Indexes:
    """Running sums that begin anew at these places."""
    before = np.concatenate([[0], sums])[first]
    return np.asarray(sums - np.repeat(before, np.diff(first, append=len(sums))), np.int64)


def are_escaped(quotes: Indexes, backslashes: Indexes) -> npt.NDArray[np.bool_]:
    """Which quotes follow an odd number of backslashes. Both ascend."""
    if not len(backslashes):
        return np.zeros(len(quotes), np.bool_)
    begins = backslashes[np.diff(backslashes, prepend=-2) != 1]
    run = np.searchsorted(begins, quotes) - 1
    last = np.searchsorted(backslashes, quotes) - 1
    follows = (last >= 0) & (backslashes[last] == quotes - 1)
    return np.asarray(follows & ((quotes - begins[run]) % 2 == 1), np.bool_)

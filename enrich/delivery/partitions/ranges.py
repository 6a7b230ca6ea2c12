"""Ranges of offsets as text, short enough to be kept beside a committed offset."""

import base64
import zlib
from collections.abc import Iterator, Sequence

Ranges = Sequence[tuple[int, int]]
"""(first, last), in rising order, neither overlapping nor touching."""

_MOST = 3_400
"""Characters. Brokers keep 4,096 bytes beside an offset, and there is more in them."""
_MOST_BYTES = 1 << 20


def packed(ranges: Ranges) -> str:
    """As many of the first ranges as fit: thousands, if they are close to each other."""
    text = _packed(ranges)
    while len(text) > _MOST:
        ranges = ranges[: len(ranges) * _MOST // len(text) - 1]
        text = _packed(ranges)
    return text


def unpacked(text: str) -> Ranges:
    """Raises ValueError for what is no such text."""
    try:
        inflater = zlib.decompressobj()
        content = inflater.decompress(base64.b85decode(text), _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not inflater.eof:
        raise ValueError("it is cut off")
    numbers, ranges, position = _numbers(content), list[tuple[int, int]](), 0
    for gap in numbers:
        first = position + gap
        position = first + next(numbers, 0)
        ranges.append((first, position))
    return ranges


def _packed(ranges: Ranges) -> str:
    content, position = bytearray(), 0
    for first, last in ranges:
        for number in (first - position, last - first):
            while number > 127:
                content.append(number & 127 | 128)
                number >>= 7
            content.append(number)
        position = last
    return base64.b85encode(zlib.compress(content, 6)).decode()


def _numbers(content: bytes) -> Iterator[int]:
    number = shift = 0
    for digit in content:
        number |= (digit & 127) << shift
        if digit > 127:
            shift += 7
        else:
            yield number
            number = shift = 0

"""Columns of text or bytes in which a short value takes one memory access: it is in the record, a long one elsewhere.

A record is two words. The lower half of the first one is the length (all ones: null). A value of up to twelve bytes is
in the rest; for a longer one the second word is its position in the text.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stores.errors import ConfigError
from stores.segments.loops.arrow_columns import Stream
from stores.segments.loops.compiled import Bytes, Flags, Hashes, Integers, compiled, load64, store64

_SHORT = 12
_PADDING = 16
_LARGEST = (1 << 31) - 1 - _PADDING


class TextWriter:
    """Writes arrays of text or bytes, one after the other."""

    def __init__(self, new_stream: Callable[[], Stream]) -> None:
        self._records = new_stream()
        self._text = new_stream()
        self._end = 0

    def write(self, array: pa.Array) -> None:
        if not len(array):
            return
        _, ends, data = array.buffers()
        kind = np.int32 if pa.types.is_string(array.type) or pa.types.is_binary(array.type) else np.int64
        offsets = np.frombuffer(ends, kind)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        content = np.frombuffer(data if data is not None and data.size else bytes(8), np.uint8)
        is_valid = array.is_valid().to_numpy(zero_copy_only=False)
        records, text = _records(content, offsets, is_valid, self._end)
        self._records.write(records.data)
        self._text.write(text.data)
        self._end += len(text)

    def finish(self) -> None:
        pass


class TextColumn:
    """A column of a mapped segment."""

    def __init__(self, kind: pa.DataType, records: Bytes, text: Bytes) -> None:
        self._kind = kind
        self._records: Hashes = records.view(np.uint64)
        self._text = text

    def take(self, rows: Integers) -> pa.Array:
        """The values of these rows; null for a row below 0.

        Raises ConfigError if they are more than an array can hold, IndexError if the column is damaged.
        """
        words, offsets, validity, nulls = _sizes(self._records, rows)
        total = int(offsets[-1])
        if total > _LARGEST and int(np.diff(offsets).max()) <= max(len(self._text), _SHORT):
            raise ConfigError(
                f"the values of one batch have {total} bytes, more than an Arrow array can hold",
                next_step="use smaller batches",
            )
        data = np.empty(min(total, _LARGEST) + _PADDING, np.uint8)
        if not 0 <= total <= _LARGEST or not _fill(words, offsets, self._text, data):
            raise IndexError("a value lies beyond the end of the text")
        wide_offsets = pa.py_buffer(offsets.astype(np.int32) if not _is_large(self._kind) else offsets)
        buffers = [pa.py_buffer(validity) if nulls else None, wide_offsets, pa.py_buffer(data)]
        return pa.Array.from_buffers(self._kind, len(rows), buffers)


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


@compiled
def _records(content: Bytes, offsets: Integers, is_valid: Flags, end: int) -> tuple[Hashes, Bytes]:
    """The records of values, and the text of the long ones; `end`: the position at which this text will be written."""
    count = len(is_valid)
    records = np.empty(2 * count, np.uint64)
    long_bytes = 0
    for i in range(count):
        length = offsets[i + 1] - offsets[i]
        if is_valid[i] and length > _SHORT:
            long_bytes += length
    text = np.empty(long_bytes, np.uint8)
    at = 0
    for i in range(count):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        head = tail = np.uint64(0)
        if not is_valid[i]:
            records[2 * i], records[2 * i + 1] = np.uint64(0xFFFFFFFF), np.uint64(0)
            continue
        if length > _SHORT:
            for byte in range(length):
                text[at + byte] = content[start + byte]
            tail = np.uint64(end + at)
            at += length
        else:
            for byte in range(min(length, 4)):
                head |= np.uint64(content[start + byte]) << np.uint64(8 * byte)
            for byte in range(4, length):
                tail |= np.uint64(content[start + byte]) << np.uint64(8 * (byte - 4))
        records[2 * i] = np.uint64(length) | (head << np.uint64(32))
        records[2 * i + 1] = tail
    return records, text


@compiled
def _sizes(records: Hashes, rows: Integers) -> tuple[Hashes, Integers, Bytes, int]:
    """The records of the rows, the end of each value in the result, the validity bitmap, and the number of nulls."""
    count = len(rows)
    words = np.empty(2 * count, np.uint64)
    offsets = np.empty(count + 1, np.int64)
    validity = np.zeros((count + 7) // 8, np.uint8)
    for i in range(count):
        row = rows[i]
        if row < 0:
            words[2 * i] = np.uint64(0xFFFFFFFF)
        else:
            words[2 * i] = records[2 * row]
            words[2 * i + 1] = records[2 * row + 1]
    total: Any = 0
    nulls = 0
    offsets[0] = 0
    for i in range(count):
        length = words[2 * i] & np.uint64(0xFFFFFFFF)
        if length == np.uint64(0xFFFFFFFF):
            nulls += 1
            words[2 * i] = np.uint64(0)
        else:
            total += np.int64(length)
            validity[i >> 3] |= np.uint8(1 << (i & 7))
        offsets[i + 1] = total
    return words, offsets, validity, nulls


@compiled
def _fill(words: Hashes, offsets: Integers, text: Bytes, data: Bytes) -> bool:
    """Writes the values one after the other. Returns False if a position is outside the text.

    Each short value is written as twelve bytes: the next value or the padding takes the excess.
    """
    for i in range(len(offsets) - 1):
        at, length = offsets[i], offsets[i + 1] - offsets[i]
        if length <= _SHORT:
            store64(data, at, words[2 * i] >> np.uint64(32))
            store64(data, at + 4, words[2 * i + 1])
            continue
        start: Any = np.int64(words[2 * i + 1])
        if start < 0 or start + length > len(text):
            return False
        end = start + length
        while start + 8 <= end:
            store64(data, at, load64(text, start))
            start += 8
            at += 8
        while start < end:
            data[at] = text[start]
            start += 1
            at += 1
    return True

"""Reading positions in many records, one per record, all advanced at once.

Records are untrusted: no count or length is used before it was compared with the bytes left. A record that is not valid
is marked as bad and not advanced any more; `record.py` reads it again to find the reason.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.codecs.rows import Indexes

Mask = npt.NDArray[np.bool_]

# How far a record may be read past its end before that is noticed: a varint has at most ten bytes, a double eight.
PADDING = 16


class Cursor:
    def __init__(self, data: npt.NDArray[np.uint8], position: Indexes, end: Indexes, bad: Mask) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.bad = bad

    @classmethod
    def over(cls, content: npt.NDArray[np.uint8], starts: Indexes, ends: Indexes) -> "Cursor":
        """The records must lie inside the content, in ascending order."""
        begin, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        data = np.zeros(end - begin + PADDING, np.uint8)
        data[: end - begin] = content[begin:end]
        return cls(data, starts - begin, ends - begin, np.zeros(len(starts), np.bool_))

    def __len__(self) -> int:
        return len(self.position)

    def only(self, rows: Indexes) -> "Cursor":
        """A separate cursor over some of the records; `take_back` copies its state back."""
        return Cursor(self.data, self.position[rows], self.end[rows], self.bad[rows])

    def take_back(self, rows: Indexes, cursor: "Cursor") -> None:
        self.position[rows] = cursor.position
        self.bad[rows] = cursor.bad

    def fail(self, rows: Mask) -> None:
        if rows.any():
            self.bad |= rows
            self.position[rows] = self.end[rows]

    def whole_number(self, *, bits: int = 64) -> Indexes:
        """Reads an int or long: zigzag varints."""
        raw = self._unsigned()
        value = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
        if bits < 64:
            self.fail((value < -(1 << (bits - 1))) | (value >= 1 << (bits - 1)))
        return value

    def _unsigned(self) -> npt.NDArray[np.uint64]:
        byte = self.data[self.position]
        self.position += 1
        value = byte.astype(np.uint64)
        longer = np.flatnonzero(byte >= 0x80)
        if len(longer):
            value[longer] &= np.uint64(0x7F)
        shift = 7
        while len(longer):
            byte = self.data[self.position[longer]]
            self.position[longer] += 1
            value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            if shift == 63:  # the tenth byte has the last bit
                too_long = np.zeros(len(self), np.bool_)
                too_long[longer[byte > 1]] = True
                self.fail(too_long)
                break
            longer = longer[byte >= 0x80]
            shift += 7
        self.fail(self.position > self.end)
        return value

    def fixed(self, size: int) -> tuple[Indexes, Indexes]:
        """Skips `size` bytes; returns where they start and end."""
        self.fail(self.end - self.position < size)
        starts = self.position.copy()
        self.position += np.where(self.bad, 0, size)
        return starts, self.position.copy()

    def span(self) -> tuple[Indexes, Indexes]:
        """Skips a length-prefixed value (bytes or string); returns where it starts and ends."""
        length = self.whole_number()
        self.fail((length < 0) | (length > self.end - self.position))
        starts = self.position.copy()
        self.position += np.where(self.bad, 0, length)
        return starts, self.position.copy()

    def numbers(self, starts: Indexes, kind: str) -> npt.NDArray[np.generic]:
        """The little-endian numbers at `starts`."""
        wanted = np.dtype(kind)
        # The position of a bad record may be at the very end.
        places = np.minimum(starts, len(self.data) - PADDING)[:, None] + np.arange(wanted.itemsize)
        return self.data[places].view(wanted)[:, 0]

    def slices(self, starts: Indexes, ends: Indexes) -> pa.BinaryArray:
        """Copies the bytes of each range; ranges must be ascending.

        Builds one Arrow array over all bytes in which ranges and the gaps between them alternate, and takes every
        second element: Arrow copies these much faster than NumPy gathers bytes.
        """
        if not len(starts):
            return pa.array([], pa.binary())
        offsets = np.empty(2 * len(starts), np.int32)
        offsets[0::2], offsets[1::2] = starts, ends
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        both = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return both.take(pa.array(np.arange(0, len(offsets), 2)))

    def fail_where(self, values: pa.Array, check: Callable[[pa.Array], pa.BooleanArray]) -> None:
        """Marks the records whose value fails: `check` returns true for it. Null values are ignored."""
        self.fail(check(values).fill_null(False).to_numpy(zero_copy_only=False))

"""Where the reading of many records stands: one position a record, all moved at once.

Nothing that a record says is trusted: no count and no length is used before it was compared with the bytes left.
A record that does not hold what it should is marked, stands still from then on, and is read again by `record.py`,
which knows the reason.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.codecs.rows import Indexes

Mask = npt.NDArray[np.bool_]

# A number has at most ten bytes and a float eight: so far beyond its end a record may be read before that is noticed.
PADDING = 16


class Cursor:
    def __init__(self, data: npt.NDArray[np.uint8], position: Indexes, end: Indexes, bad: Mask) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.bad = bad

    @classmethod
    def over(cls, content: npt.NDArray[np.uint8], starts: Indexes, ends: Indexes) -> "Cursor":
        """Raises nothing: the records lie inside the content, in rising order."""
        begin, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        data = np.zeros(end - begin + PADDING, np.uint8)
        data[: end - begin] = content[begin:end]
        return cls(data, starts - begin, ends - begin, np.zeros(len(starts), np.bool_))

    def __len__(self) -> int:
        return len(self.position)

    def only(self, rows: Indexes) -> "Cursor":
        """A cursor of its own over some records; `take_back` tells this one how far it came."""
        return Cursor(self.data, self.position[rows], self.end[rows], self.bad[rows])

    def take_back(self, rows: Indexes, cursor: "Cursor") -> None:
        self.position[rows] = cursor.position
        self.bad[rows] = cursor.bad

    def fail(self, rows: Mask) -> None:
        if rows.any():
            self.bad |= rows
            self.position[rows] = self.end[rows]

    def whole_number(self, *, bits: int = 64) -> Indexes:
        """The zigzag variable-length numbers of int and long."""
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
        """Steps over so many bytes; returns where they start and end."""
        self.fail(self.end - self.position < size)
        starts = self.position.copy()
        self.position += np.where(self.bad, 0, size)
        return starts, self.position.copy()

    def span(self) -> tuple[Indexes, Indexes]:
        """Steps over bytes or text; returns where they start and end."""
        length = self.whole_number()
        self.fail((length < 0) | (length > self.end - self.position))
        starts = self.position.copy()
        self.position += np.where(self.bad, 0, length)
        return starts, self.position.copy()

    def numbers(self, starts: Indexes, kind: str) -> npt.NDArray[np.generic]:
        """The little-endian numbers that start there."""
        wanted = np.dtype(kind)
        # A record that is bad may stand at the very end.
        places = np.minimum(starts, len(self.data) - PADDING)[:, None] + np.arange(wanted.itemsize)
        return self.data[places].view(wanted)[:, 0]

    def slices(self, starts: Indexes, ends: Indexes) -> pa.BinaryArray:
        """Copies what lies between; the places rise from record to record.

        What lies there and what lies between two of them take turns in one array over all the bytes; Arrow copies
        every second element of it much faster than NumPy gathers bytes.
        """
        if not len(starts):
            return pa.array([], pa.binary())
        offsets = np.empty(2 * len(starts), np.int32)
        offsets[0::2], offsets[1::2] = starts, ends
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        both = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return both.take(pa.array(np.arange(0, len(offsets), 2)))

    def fail_where(self, values: pa.Array, check: Callable[[pa.Array], pa.BooleanArray]) -> None:
        """Marks the records for whose value the check is true; null values are none of its business."""
        self.fail(check(values).fill_null(False).to_numpy(zero_copy_only=False))

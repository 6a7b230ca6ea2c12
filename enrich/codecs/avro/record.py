"""Reads a single record, and reports why it cannot be read."""

from enrich.codecs.unfit import Unfit


class RecordBytes:
    """The bytes of one record. No count or length is used before it was compared with the bytes left."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def whole_number(self, *, bits: int = 64) -> int:
        data, position = self._data, self._position
        value = shift = 0
        while True:
            if position == len(data):
                raise Unfit("the record is cut short")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise Unfit("a number of more than 64 bits")
        self._position = position
        value = (value >> 1) ^ -(value & 1)
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise Unfit(f"a number of more than {bits} bits")
        return value

    def span(self) -> bytes:
        length = self.whole_number()
        if length < 0:
            raise Unfit("a length below zero")
        return self.take(length)

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise Unfit("the record is cut short")
        self._position += size
        return self._data[self._position - size : self._position]

    def block(self) -> int:
        """The number of items in the next block of an array or map; 0 at the end."""
        count = self.whole_number()
        if count < 0:
            if not 0 <= self.whole_number() <= self.left:
                raise Unfit("the record is cut short")
            count = -count
        # This would only be wrong for items without bytes (null, an empty record), which are useless.
        if count > self.left:
            raise Unfit("more items than the record has bytes")
        return count

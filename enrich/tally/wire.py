"""Numbers, texts and bytes one after the other. What is read is believed in nothing: anybody may write into a topic."""

from enrich.base.errors import BadRecord

_MOST_VARINT = 10


class Malformed(BadRecord):
    """These bytes are not what they should be."""


class Written:
    def __init__(self) -> None:
        self.content = bytearray()

    def byte(self, value: int) -> None:
        self.content.append(value)

    def number(self, value: int) -> None:
        """Seven bits a byte, the lowest first; the eighth says that more follow."""
        while value > 0x7F:
            self.content.append(value & 0x7F | 0x80)
            value >>= 7
        self.content.append(value)

    def signed(self, value: int) -> None:
        """0, -1, 1, -2, 2 ... as 0, 1, 2, 3, 4 ..."""
        self.number(value << 1 if value >= 0 else (-value << 1) - 1)

    def text(self, value: str) -> None:
        self.bytes(value.encode())

    def bytes(self, value: bytes) -> None:
        self.number(len(value))
        self.content += value


class Reader:
    """Raises Malformed for whatever does not fit."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def byte(self) -> int:
        if self._at >= len(self._content):
            raise self.malformed("it ends too early")
        self._at += 1
        return self._content[self._at - 1]

    def numbers(self, count: int, most: int) -> list[int]:
        """The same as `number` so many times, in a third of the time."""
        found, content, at = list[int](), self._content, self._at
        for _ in range(count):
            if at < len(content) and content[at] < 0x80 and content[at] <= most:
                found.append(content[at])
                at += 1
            else:
                self._at = at
                found.append(self.number(most))
                at = self._at
        self._at = at
        return found

    def number(self, most: int = 2**63 - 1) -> int:
        value = 0
        for index in range(_MOST_VARINT):
            one = self.byte()
            value |= (one & 0x7F) << (7 * index)
            if one < 0x80:
                if value > most:
                    raise self.malformed(f"{value} is more than {most}")
                return value
        raise self.malformed("a number has no end")

    def signed(self) -> int:
        value = self.number(2**64 - 1)
        return value >> 1 if not value & 1 else -((value + 1) >> 1)

    def count(self, least_bytes: int = 1) -> int:
        """How many things follow, that take so many bytes each at least: more than there is room for is refused."""
        return self.number(self.left // least_bytes)

    def text(self) -> str:
        try:
            return self.bytes().decode()
        except UnicodeDecodeError as error:
            raise self.malformed("a text is not UTF-8") from error

    def bytes(self) -> bytes:
        length = self.number(self.left)
        self._at += length
        return self._content[self._at - length : self._at]

    def end(self) -> None:
        if self.left:
            raise self.malformed(f"{self.left} bytes follow its end")

    def malformed(self, why: str) -> Malformed:
        return Malformed(
            f"a tally cannot be read: {why} (byte {self._at} of {len(self._content)})",
            next_step="another program has written it, or a newer release: see docs/tallies.md",
        )

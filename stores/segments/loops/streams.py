"""Where the bytes of a column go while it is written."""

from typing import Protocol


class Stream(Protocol):
    def write(self, data: "memoryview | bytes", /) -> object: ...

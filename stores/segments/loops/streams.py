"""The interface to which the bytes of a column are written."""

from typing import Protocol


class Stream(Protocol):
    def write(self, data: "memoryview | bytes", /) -> object: ...

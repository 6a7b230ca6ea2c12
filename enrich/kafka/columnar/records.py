"""Records in columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADER = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
HEADERS = pa.list_(HEADER)
"""The headers of a record. Their names are bytes: anybody may write into a topic."""

Places = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Came:
    """Records that were read, those of each partition in their order."""

    topics: Sequence[str]
    topic: Places
    """Of each record: a place in `topics`."""
    partition: Places
    offset: npt.NDArray[np.int64]
    time_ms: npt.NDArray[np.int64]
    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: pa.ListArray
    reached: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By topic and number: of each partition whose end was reached where that is. All before it has come, here or
    earlier. Only from a consumer with `enable.partition.eof`."""

    def __len__(self) -> int:
        return len(self.offset)

    def by_partition(self) -> "list[Came]":
        """The same apart."""
        codes = self._codes
        return [self._at(np.flatnonzero(codes == each)) for each in np.unique(codes)]

    def part(self, first: int, last: int) -> "Came":
        return self._at(np.arange(first, last))

    def ends(self) -> dict[tuple[str, int], int]:
        """The offset behind the last record of each partition, by topic and number."""
        codes, lasts = np.unique(self._codes[::-1], return_index=True)
        pairs = zip(codes.tolist(), self.offset[::-1][lasts].tolist(), strict=True)
        return {(self.topics[each >> 32], each & 0xFFFFFFFF): offset + 1 for each, offset in pairs}

    @property
    def _codes(self) -> npt.NDArray[np.int64]:
        """A number for each record's topic and partition."""
        return self.topic.astype(np.int64) << 32 | self.partition

    def _at(self, places: npt.NDArray[np.intp]) -> "Came":
        if len(places) == len(self):
            return self
        taken = pa.array(places)
        numbers = (self.topic[places], self.partition[places], self.offset[places], self.time_ms[places])
        columns = (self.keys.take(taken), self.values.take(taken), self.headers.take(taken))
        return Came(self.topics, *numbers, *columns)


@dataclass(frozen=True)
class Records:
    """Records to write, those of each topic in their order."""

    topics: Sequence[str]
    topic: Places
    """Of each record: a place in `topics`."""
    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: pa.ListArray

    def __len__(self) -> int:
        return len(self.topic)

    @classmethod
    def of(cls, topic: str, keys: pa.BinaryArray, values: pa.BinaryArray, headers: pa.ListArray) -> "Records":
        """All for one topic."""
        return cls([topic], np.zeros(len(values), np.int32), keys, values, headers)

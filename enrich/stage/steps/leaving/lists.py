"""Lists of headers, put together for a batch of events at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from enrich.kafka.columnar.records import HEADER

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Some headers, each of an event. Those of one event stand in their order."""

    events: Places
    """The event of each, ascending."""
    headers: pa.StructArray

    @classmethod
    def of_lists(cls, lists: pa.ListArray) -> "Part":
        """All headers of the events."""
        return cls(pc.list_parent_indices(lists).to_numpy().astype(np.int64), lists.flatten())

    @classmethod
    def named(cls, name: str, events: Places, contents: pa.BinaryArray) -> "Part":
        """A header of this name for each of these events."""
        names = pa.repeat(pa.scalar(name.encode(), pa.binary()), len(contents))
        return cls(events, pa.StructArray.from_arrays([names, contents], fields=list(HEADER)))


def joined(parts: Sequence[Part], count: int) -> pa.ListArray:
    """The headers of each of `count` events: those of the first part, then those of the second, ..."""
    events = np.concatenate([part.events for part in parts])
    rows = pa.concat_arrays([part.headers for part in parts])
    each_has_one = all(len(part.events) == count for part in parts) and len(events) == len(parts) * count
    if each_has_one and all((part.events == np.arange(count)).all() for part in parts):
        order = np.arange(len(events)).reshape(len(parts), count).T.ravel()
    else:
        order = np.argsort(events, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(events, minlength=count))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), rows.take(pa.array(order)))

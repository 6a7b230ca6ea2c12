"""The size of a table's segments."""

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stores.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class Stats:
    """The sizes of the segments of one table."""

    segments: int
    keys: int
    """Including tombstones. A key that is in several segments counts several times."""
    versions: int
    bytes: int


def stats_of(segments: Sequence[Segment]) -> Stats:
    return Stats(
        segments=len(segments),
        keys=sum(len(segment.entries) for segment in segments),
        versions=sum(segment.versions for segment in segments),
        bytes=sum(segment.written.stamp.size for segment in segments),
    )


def bytes_in_memory(segments: Sequence[Segment]) -> int | None:
    """How much of the files is in the page cache now, once for all processes. None if the system does not report it."""
    resident = [_resident_bytes(segment) for segment in segments]
    return None if None in resident else sum(size for size in resident if size is not None)


def _resident_bytes(segment: Segment) -> int | None:
    content = segment.file.content
    pages = np.zeros(-(-len(content) // mmap.PAGESIZE), np.uint8)
    address = ctypes.c_void_p(content.ctypes.data)
    if ctypes.CDLL(None).mincore(address, ctypes.c_size_t(len(content)), ctypes.c_void_p(pages.ctypes.data)):
        return None
    return min(int((pages & 1).sum()) * mmap.PAGESIZE, len(content))

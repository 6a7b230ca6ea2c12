"""Checks that the new topic gives the same rows as the old one: key by key, by 64-bit hashes of key and value."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enrich.admin.census import hashes_of
from enrich.admin.cluster import Cluster
from enrich.admin.moves.move import Route
from enrich.admin.moves.transcoding import Transcoder, unchanged
from enrich.admin.reading import Report, batches_of, silent

_ROW = np.dtype(
    [("key", "<u8"), ("partition", "<i4"), ("offset", "<i8"), ("time", "<i8"), ("value", "<u8"), ("lives", "?")]
)
_Rows = npt.NDArray[np.void]
_COLLAPSE_AT = 1_000_000
_NAMED = 3


@dataclass(frozen=True)
class Verified:
    """How many keys the old topic has, and how many differ."""

    keys: int
    differences: int
    examples: tuple[str, ...]
    ends: dict[int, int]
    """The old topic's end offsets when it was compared."""


def verify(cluster: Cluster, route: Route, report: Report = silent) -> Verified:
    ends = cluster.topics.end_offsets(route.source)
    old = _living(cluster, route.source, route.transcode, report, ends)
    new = _living(cluster, route.target, unchanged, report, None)
    pairs = np.dtype([("key", "<u8"), ("value", "<u8")])
    ours, theirs = np.empty(len(old), pairs), np.empty(len(new), pairs)
    for rows, made in ((old, ours), (new, theirs)):
        made["key"], made["value"] = rows["key"], rows["value"]
    differing = np.unique(np.setxor1d(ours, theirs)["key"])
    return Verified(len(old), len(differing), _names(cluster, route, differing), ends)


def _living(cluster: Cluster, topic: str, transcode: Transcoder, report: Report, ends: dict[int, int] | None) -> _Rows:
    """For each key the row that a table would have. Deleted keys are left out."""
    rows, pieces, waiting = np.empty(0, _ROW), [], 0
    for batch in batches_of(cluster, topic, report, ends=ends):
        keyed = [message for message in batch if message.key() is not None]
        piece = np.empty(len(keyed), _ROW)
        values = transcode([_bytes(message.value()) for message in keyed])
        piece["key"] = hashes_of([message.key() for message in keyed])
        piece["partition"] = [message.partition() for message in keyed]
        piece["offset"] = [message.offset() for message in keyed]
        piece["time"] = [message.timestamp()[1] for message in keyed]
        piece["value"] = hashes_of(values)
        piece["lives"] = [value is not None for value in values]
        pieces.append(piece)
        waiting += len(piece)
        if waiting > _COLLAPSE_AT:
            rows, pieces, waiting = _last(np.concatenate([rows, *pieces]), ("key", "partition", "offset"), 2), [], 0
    rows = _last(np.concatenate([rows, *pieces]), ("key", "partition", "offset"), 2)
    rows = _last(rows, ("key", "time", "partition", "offset"), 1)
    living: _Rows = rows[rows["lives"]]
    return living


def _last(rows: _Rows, order: Sequence[str], same: int) -> _Rows:
    """For each group of rows whose first `same` columns are equal, the last one in this order."""
    ordered = rows[np.lexsort([rows[name] for name in reversed(order)])]
    if not len(ordered):
        return ordered
    last = np.zeros(len(ordered), np.bool_)
    last[-1] = True
    for name in order[:same]:
        last[:-1] |= ordered[name][1:] != ordered[name][:-1]
    return ordered[last]


def _names(cluster: Cluster, route: Route, differing: npt.NDArray[np.uint64]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for topic in (route.source, route.target) if len(differing) else ():
        for batch in batches_of(cluster, topic):
            keys = [message.key() for message in batch]
            for index in np.flatnonzero(np.isin(hashes_of(keys), differing)).tolist():
                found[(_bytes(keys[index]) or b"").decode("utf-8", "backslashreplace")] = None
                if len(found) >= _NAMED:
                    return tuple(found)
    return tuple(found)


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content

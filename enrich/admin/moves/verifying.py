"""The end of a move: checks that the new topic gives the same rows as the old one, key by key, by 64-bit hashes of key
and value, and records that the table has moved."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enrich.admin.census import hashes_of, newest_of
from enrich.admin.cluster import Cluster
from enrich.admin.moves.move import Route
from enrich.admin.moves.transcoding import Transcoder, unchanged
from enrich.admin.reading import Report, batches_of, silent
from enrich.admin.topics.notes import Note, ensure_notes_topic, write_notes
from enrich.kafka.records import key_of, value_of

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


def record_move(cluster: Cluster, route: Route, verified: Verified, old_format: str, new_format: str) -> None:
    """From now on `enrich topics check` of the old topic reports if somebody still writes there."""
    ensure_notes_topic(cluster)
    ends = {str(partition): offset for partition, offset in verified.ends.items()}
    notes = {
        route.target: Note(cluster.topics.topic_id(route.target), new_format),
        route.source: Note(cluster.topics.topic_id(route.source), old_format, route.target, ends),
    }
    write_notes(cluster, notes)


def _living(cluster: Cluster, topic: str, transcode: Transcoder, report: Report, ends: dict[int, int] | None) -> _Rows:
    """For each key the row that a table would have. Deleted keys are left out."""
    rows, pieces, waiting = np.empty(0, _ROW), [], 0
    for batch in batches_of(cluster, topic, report, ends=ends):
        keyed = [message for message in batch if message.key() is not None]
        piece = np.empty(len(keyed), _ROW)
        values = transcode([value_of(message) for message in keyed])
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
    return rows[newest_of(rows, order, same)]


def _names(cluster: Cluster, route: Route, differing: npt.NDArray[np.uint64]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for topic in (route.source, route.target) if len(differing) else ():
        for batch in batches_of(cluster, topic):
            keys = [key_of(message) for message in batch]
            for index in np.flatnonzero(np.isin(hashes_of(keys), differing)).tolist():
                found[(keys[index] or b"").decode("utf-8", "backslashreplace")] = None
                if len(found) >= _NAMED:
                    return tuple(found)
    return tuple(found)

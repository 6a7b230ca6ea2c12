"""Finds the version of each key for an as-of time or a pin: the loops over the versions of one segment.

A key's versions are sorted by (timestamp, partition, offset). So the last one not later than a time is the answer of
this segment. Across segments the greatest one answers, since an old segment may have a version with a late timestamp.
"""

import numpy as np

from stores.segments.loops.compiled import Flags, Integers, Record, Records, compiled, inlined

NO_TIME = np.iinfo(np.int64).max
"""Instead of a time: now."""


@inlined
def _is_later(timestamp: int, partition: int, offset: int, answer: Record) -> bool:
    """Whether a version comes after the one that answers so far."""
    if timestamp != answer.timestamp:
        return bool(timestamp > answer.timestamp)
    if partition != answer.partition:
        return bool(partition > answer.partition)
    return bool(offset > answer.offset)


@inlined
def _put(answer: Record, segment: int, row: int, timestamp: int, partition: int, offset: int) -> None:
    answer.segment = segment
    answer.row = row
    answer.timestamp = timestamp
    answer.partition = partition
    answer.offset = offset


@inlined
def _first_after(versions: Records, start: int, end: int, time: int) -> int:
    """The index of the first version later than a time."""
    while start < end:
        middle = (start + end) >> 1
        if versions[middle].timestamp <= time:
            start = middle + 1
        else:
            end = middle
    return start


@inlined
def _first_hidden(versions: Records, start: int, end: int, pin: Integers) -> int:
    """The index of the first version that a pin hides, among versions of one partition in the order of offsets."""
    partition = versions[start].partition
    visible = pin[partition] if 0 <= partition < len(pin) else 0
    while start < end:
        middle = (start + end) >> 1
        if versions[middle].offset < visible:
            start = middle + 1
        else:
            end = middle
    return start


@compiled
def as_of(
    asked: Integers,
    found: Integers,
    entries: Records,
    versions: Records,
    rows: int,
    segment: int,
    times: Integers,
    pin: Integers,
    is_pinned: bool,
    answers: Records,
) -> bool:
    """The greatest version not later than each key's time and below the pin, if one is given. Returns False if the
    segment is corrupt.

    `pin`: by partition, the offset below which versions are visible.
    """
    for i in range(len(asked)):
        number = found[i]
        if number < 0:
            continue
        entry, answer, time = entries[number], answers[asked[i]], times[asked[i]]
        if entry.versions_count == 0:
            partition = entry.partition
            if partition < 0:
                return False
            is_seen = not is_pinned or (partition < len(pin) and entry.offset < pin[partition])
            if (
                entry.timestamp <= time
                and is_seen
                and (answer.segment < 0 or _is_later(entry.timestamp, partition, entry.offset, answer))
            ):
                if entry.row >= rows:
                    return False
                _put(answer, segment, entry.row, entry.timestamp, partition, entry.offset)
            continue
        start, end = entry.versions_start, entry.versions_start + entry.versions_count
        if start < 0 or entry.versions_count < 0 or end > len(versions):
            return False
        at = _first_after(versions, start, end, time)
        if is_pinned and entry.flags & 2:
            at = min(at, _first_hidden(versions, start, end, pin))
        while at > start:
            at -= 1
            version = versions[at]
            partition = version.partition
            if partition < 0:
                return False
            if is_pinned and not (partition < len(pin) and version.offset < pin[partition]):
                continue
            if answer.segment < 0 or _is_later(version.timestamp, partition, version.offset, answer):
                if version.row >= rows:
                    return False
                _put(answer, segment, version.row, version.timestamp, partition, version.offset)
            break
    return True


@compiled
def pinned(
    asked: Integers,
    found: Integers,
    entries: Records,
    versions: Records,
    rows: int,
    segment: int,
    pin: Integers,
    answers: Records,
    doubts: Flags,
) -> bool:
    """The newest version below the pin of each key that has no answer yet. Returns False if the segment is corrupt.

    Call it for the newest segment first. `doubts` marks keys in several partitions, which this loop cannot decide.
    """
    for i in range(len(asked)):
        number = found[i]
        if number < 0:
            continue
        entry, answer = entries[number], answers[asked[i]]
        if entry.flags & 1:
            doubts[asked[i]] = True
            continue
        partition = entry.partition
        visible = pin[partition] if 0 <= partition < len(pin) else 0
        if entry.offset < visible:
            if entry.row >= rows:
                return False
            _put(answer, segment, entry.row, entry.timestamp, partition, entry.offset)
            continue
        if entry.versions_count == 0:
            continue
        start, end = entry.versions_start, entry.versions_start + entry.versions_count
        if start < 0 or entry.versions_count < 0 or end > len(versions):
            return False
        best = -1
        if entry.flags & 2:
            best = _first_hidden(versions, start, end, pin) - 1
            best = best if best >= start else -1
        else:
            for at in range(start, end):
                if versions[at].offset < visible and (best < 0 or versions[at].offset > versions[best].offset):
                    best = at
        if best >= 0:
            version = versions[best]
            if version.row >= rows:
                return False
            _put(answer, segment, version.row, version.timestamp, version.partition, version.offset)
    return True

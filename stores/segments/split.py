"""Keys that are in several partitions, which is a fault of their topic.

For such a key the newest segment does not decide its latest version, since an older segment may have a version of
another partition with a later time. So these entries are marked, and readers look up their keys in all segments.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stores.segments.layout import SPLIT
from stores.segments.loops.compiled import Flags, Integers, Records
from stores.segments.probes import Probes
from stores.segments.segment import Segment
from stores.segments.sources import Chunk


def split_keys(probes: Probes, partitions: Integers, segments: Sequence[Segment]) -> Flags:
    """Which of the keys are in these segments with another partition, or are marked there."""
    split = np.zeros(len(probes), bool)
    for segment in segments:
        places = segment.find(probes.hashes, probes.data, probes.starts, probes.lengths, probes.asked)
        is_known = places >= 0
        entries = segment.entries[places[is_known]]
        split[is_known] |= (entries["partition"] != partitions[is_known]) | (entries["flags"] & SPLIT != 0)
    return split


@dataclass(frozen=True, slots=True)
class Marked:
    """A segment as a source, with its split keys marked."""

    segment: Segment
    older: Segment
    """The segment in which some of its keys may have another partition."""

    @property
    def versions(self) -> int:
        return self.segment.versions

    @property
    def key_bytes(self) -> int:
        return self.segment.key_bytes

    def chunks(self) -> Iterator[Chunk]:
        for chunk in self.segment.chunks():
            probes = Probes.at(chunk.data, chunk.starts, chunk.lengths)
            split = split_keys(probes, chunk.partitions, [self.older])
            yield replace(chunk, split=split if chunk.split is None else split | chunk.split)

    def has_any(self) -> bool:
        return any(chunk.split is not None and bool(chunk.split.any()) for chunk in self.chunks())


def settle_split(
    segments: Sequence[Segment], probes: Probes, doubtful: Integers, pin: Mapping[int, int] | None, answers: Records
) -> None:
    """Fills in the newest version below the pin: the latest of the last versions of each partition. Raises
    CorruptState."""
    versions: dict[int, list[tuple[int, int, int, int, int]]] = {place: [] for place in doubtful.tolist()}
    for number, segment in enumerate(segments):
        found = segment.find(probes.hashes, probes.data, probes.starts, probes.lengths, doubtful)
        for place, entry in zip(doubtful.tolist(), found.tolist(), strict=True):
            if entry >= 0:
                versions[place] += [(*version, number) for version in segment.versions_of(entry)]
    for place, known in versions.items():
        last: dict[int, tuple[int, int, int, int, int]] = {}
        for version in known:
            _, partition, offset, _, _ = version
            if pin is not None and offset >= pin.get(partition, 0):
                continue
            if partition not in last or offset > last[partition][2]:
                last[partition] = version
        answer = answers[place : place + 1]
        answer["segment"], answer["row"] = -1, -1
        if last:
            timestamp, partition, offset, row, number = max(last.values())
            answer["timestamp"], answer["partition"], answer["offset"] = timestamp, partition, offset
            answer["row"], answer["segment"] = row, number

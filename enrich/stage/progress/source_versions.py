"""Makes the offsets of a stage's events comparable over the stage's whole life, for the versions of its write-back: by
a generation, which rises when the topic is recreated or gets more partitions.

It is kept twice: in a file beside the checkpoint's folder, and with the offsets of the stage's group. If a topic is
recreated the group's offsets are lost, and people have to delete the checkpoint; if the folders are lost, the group
still has it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from enrich.base.errors import ConfigError
from stores.versions import LARGEST_GENERATION, OFFSETS_OF_A_GENERATION


@dataclass(frozen=True)
class SourceVersions:
    """A version is generation * 2^40 + offset. Offsets before a partition's start are of the previous generation."""

    topic: str
    topic_id: str
    generation: int
    starts: Sequence[int]
    """By partition."""

    def to_text(self) -> str:
        return json.dumps({"topic_id": self.topic_id, "generation": self.generation, "starts": list(self.starts)})


class Notes(Protocol):
    """Where texts are kept."""

    @property
    def beside(self) -> str:
        """The name of a text that outlives the checkpoint."""

    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...


class Group(Protocol):
    """The stage's consumer group."""

    @property
    def note(self) -> str | None:
        """The text that was committed with its offsets."""

    def committed(self, topic: str, partitions: list[int]) -> dict[int, int]: ...
    def committed_before(self, topic: str, partitions: list[int]) -> tuple[dict[int, int], str | None]:
        """Offsets and text of the group that earlier releases used."""

    def remember(self, note: str) -> None:
        """Commits the text with the next offsets."""


def source_versions(
    topic: str,
    topic_id: str,
    partitions: int,
    notes: Notes,
    group: Group,
    ends: Callable[[], Mapping[int, int]],
    written: int = 0,
) -> SourceVersions:
    """The versions to use from now on, stored in both places. `ends`: returns the partitions' current end offsets.
    `written`: the greatest version that the newest records have of what is written back. Those of a stage that had
    another name, read another topic, or had a field for its versions, are above what is known here.

    Raises ConfigError if the topic was recreated too often.
    """
    places = list(range(partitions))
    group.committed(topic, places)
    texts = [notes.read(notes.beside), group.note]
    found = _read(topic, texts)
    if not found:
        # It may be that of another pipeline: then the generation is too high, which does no harm.
        found = _read(topic, [group.committed_before(topic, places)[1]])
    known = max(found, key=lambda each: each.generation, default=None)
    now = _now(topic, topic_id, partitions, known, ends)
    if now.generation < written // OFFSETS_OF_A_GENERATION < LARGEST_GENERATION:
        now = SourceVersions(topic, topic_id, written // OFFSETS_OF_A_GENERATION + 1, [0] * partitions)
    if now.generation > LARGEST_GENERATION:
        raise ConfigError(
            "the topic was recreated too often: there is no higher generation for the versions of the write-back",
            where=f"topic {topic}",
            next_step="read the events from a topic of another name, and write back to an empty place: both begin anew",
        )
    if known != now:
        notes.write(notes.beside, now.to_text())
    group.remember(now.to_text())
    return now


def _now(
    topic: str, topic_id: str, partitions: int, known: SourceVersions | None, ends: Callable[[], Mapping[int, int]]
) -> SourceVersions:
    nothing = [0] * partitions
    if known is None:
        return SourceVersions(topic, topic_id, 1, nothing)
    if known.topic_id != topic_id:
        return SourceVersions(topic, topic_id, known.generation + 1, nothing)
    if len(known.starts) != partitions:
        # Everything that is in the old partitions now is of the previous generation, processed or not: a key's events
        # in a new partition are newer. A new partition has nothing of the previous generation.
        before, now = len(known.starts), ends()
        starts = [now.get(p, 0) if p < before else 0 for p in range(partitions)]
        return SourceVersions(topic, topic_id, known.generation + 1, starts)
    return known


def _read(topic: str, texts: Sequence[str | None]) -> Sequence[SourceVersions]:
    """Without what a stage with another profile has noted in its group."""
    contents = [json.loads(text) for text in texts if text]
    return [
        SourceVersions(topic, str(each["topic_id"]), int(each["generation"]), list(each["starts"]))
        for each in contents
        if "topic_id" in each
    ]

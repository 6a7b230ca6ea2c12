"""What makes the offsets of a stage's events comparable for as long as the stage lives, for the versions of what it
writes back: a generation, which rises when the topic is made anew or gets more partitions.

It is kept twice: in a file beside the checkpoint's folder, and with the offsets of the stage's group. When a topic is
made anew its offsets go, and people have to delete the checkpoint; when the folders are lost, the group is still there.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from enrich.base.errors import ConfigError
from stores.external.protocol import LARGEST_GENERATION


@dataclass(frozen=True)
class SourceVersions:
    """A version is generation * 2^40 + offset; before a partition's start, that of the generation before."""

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
        """The name of one that outlives the checkpoint."""

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
        """The text is committed with the next offsets."""


def source_versions(
    topic: str, topic_id: str, partitions: int, notes: Notes, group: Group, ends: Callable[[], Mapping[int, int]]
) -> SourceVersions:
    """Those that hold from now on, kept in both places. `ends`: where the topic's partitions end now.

    Raises ConfigError when the topic was made anew too often.
    """
    places = list(range(partitions))
    group.committed(topic, places)
    texts = [notes.read(notes.beside), group.note]
    if not any(texts):
        # A generation too many does no harm, should it be that of another pipeline.
        texts = [group.committed_before(topic, places)[1]]
    known = max((_read(topic, text) for text in texts if text), key=lambda each: each.generation, default=None)
    now = _now(topic, topic_id, partitions, known, ends)
    if now.generation > LARGEST_GENERATION:
        raise ConfigError("the topic was made anew too often to count versions further", where=f"topic {topic}")
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
        # What stands in the old partitions by now counts as of the generation before, done or not: what a key has in
        # a new partition is newer. A new partition has nothing of the generation before.
        before, stood = len(known.starts), ends()
        starts = [stood.get(p, 0) if p < before else 0 for p in range(partitions)]
        return SourceVersions(topic, topic_id, known.generation + 1, starts)
    return known


def _read(topic: str, text: str) -> SourceVersions:
    content = json.loads(text)
    return SourceVersions(topic, str(content["topic_id"]), int(content["generation"]), list(content["starts"]))

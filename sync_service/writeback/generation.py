"""The generation of a route: which topic its versions count in. Offsets of another topic would count anew, below the
versions that the store has, and every update would be taken for an old one.

Kept beside the rows, in the store, since it is about the rows: an emptied store begins anew, as it should.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from enrich.errors import ConfigError, Retryable, WouldLoseData
from enrich.kafka import Topics
from stores.external import VersionedStore
from stores.external.protocol import NOTES, OFFSETS_OF_A_GENERATION

OFFSETS = OFFSETS_OF_A_GENERATION
"""A version is generation * OFFSETS + offset."""


@dataclass(frozen=True)
class Generation:
    """The topic as the route knows it, and where in it the generation begins."""

    number: int
    topic_id: str
    starts: Mapping[int, int] = field(default_factory=dict)
    """For every partition, from which offset on records are of this generation; those before are of the one before,
    which only reconciliation writes. Nothing before is read again: it was settled when the generation was raised."""

    def version(self, partition: int, offset: int) -> int:
        past = offset < self.starts.get(partition, 0)
        return (self.number - past) * OFFSETS + offset

    def to_text(self) -> str:
        starts = {str(partition): offset for partition, offset in sorted(self.starts.items())}
        return json.dumps({"generation": self.number, "topic_id": self.topic_id, "starts": starts})

    @classmethod
    def from_text(cls, text: str) -> "Generation":
        content = json.loads(text)
        starts = {int(partition): int(offset) for partition, offset in content["starts"].items()}
        return cls(int(content["generation"]), str(content["topic_id"]), starts)


def note_name(pipeline: str, route: str) -> str:
    return f"{NOTES}{pipeline}.{route}"


class Gate:
    """Lets a route go on only while its topic is the one that its generation knows."""

    def __init__(self, store: VersionedStore, topics: Topics, topic: str, pipeline: str, route: str) -> None:
        self._store = store
        self._topics = topics
        self._topic = topic
        self._note = note_name(pipeline, route)
        self._route = route

    def enter(self) -> Generation:
        """The route's generation, the first one if it has none. Raises WouldLoseData for an unknown topic, Retryable
        for one that is not there."""
        known = self._store.load_note(self._note)
        if known is None:
            topic_id, partitions = self.topic_now()
            first = Generation(1, topic_id, dict.fromkeys(partitions, 0))
            if self._store.save_note(self._note, first.to_text(), None):
                return first
            known = self._store.load_note(self._note)  # another instance was faster
        if known is None:
            raise Retryable("the note of the route's generation came and went", where=self._note)
        generation = Generation.from_text(known)
        self.verify(generation)
        return generation

    def verify(self, generation: Generation) -> None:
        """Everything that was read before this call was of the generation's topic: an id never comes back.

        Raises WouldLoseData when the topic is another now or has other partitions.
        """
        topic_id, partitions = self.topic_now()
        if topic_id != generation.topic_id:
            raise self._unknown("was made again since this route wrote its rows")
        if set(partitions) != set(generation.starts):
            raise self._unknown(f"has {len(partitions)} partitions and had {len(generation.starts)}")

    def topic_now(self) -> tuple[str, list[int]]:
        """A topic that is not there may still come, so the route waits: services start in any order."""
        try:
            return self._topics.identity(self._topic)
        except ConfigError as error:
            if self._topics.exists(self._topic):
                raise
            raise Retryable(
                "the topic is not there", where=f"topic {self._topic}", next_step="create it, or correct its name"
            ) from error

    def _unknown(self, what: str) -> WouldLoseData:
        return WouldLoseData(
            f"the topic {what}: its offsets cannot be compared with the versions in the store",
            where=f"topic {self._topic}, route {self._route}",
            next_step=f"run `enrich sync reconcile {self._route} --repair -c FILE`, which compares all rows, repairs "
            "what differs and raises the generation; the route then goes on by itself",
        )

"""The generation of a route: which topic its versions count in. Offsets of another topic would count anew, below the
versions that the store has, and every update would be taken for an old one.

Kept beside the rows, in the store, since it is about the rows: an emptied store begins anew, as it should.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from enrich.base.errors import ConfigError, Fenced, Retryable, WouldLoseData
from enrich.delivery.positions import Committed
from enrich.kafka import Topics
from stores.external import VersionedStore
from stores.external.protocol import NOTES, OFFSETS_OF_A_GENERATION
from sync_service.routes import Paused

OFFSETS = OFFSETS_OF_A_GENERATION
"""A version is generation * OFFSETS + offset."""


# How long a retry topic's route waits for the first note, and how often it looks.
_BEGINS_S, _LOOK_S = 5.0, 0.1
_TRIES = 10


class AnotherGeneration(Fenced):
    """The route's note was replaced while the route was at work: it has to begin again, by the new one."""


@dataclass(frozen=True)
class Generation:
    """The topic as the route knows it, and where in it the generation begins."""

    number: int
    topic_id: str
    starts: Mapping[int, int] = field(default_factory=dict)
    """For every partition, from which offset on records are of this generation; those before are of the one before,
    which only reconciliation writes. Nothing before is read again: it was settled when the generation was raised."""
    born: str = ""
    """Drawn with the first note of a store: one that was emptied has another. Empty in notes of older releases."""
    doubt: str | None = field(default=None, compare=False)
    """Why the store may have what the topic has not, until a comparison has looked."""
    cut: str | None = field(default=None, compare=False)
    """Why the offsets of the topic say nothing any more, until the generation is raised."""
    paused: str | None = field(default=None, compare=False)
    """Since when a person has paused the route."""

    def version(self, partition: int, offset: int) -> int:
        past = offset < self.starts.get(partition, 0)
        return (self.number - past) * OFFSETS + offset

    def to_text(self) -> str:
        starts = {str(partition): offset for partition, offset in sorted(self.starts.items())}
        content = {"generation": self.number, "topic_id": self.topic_id, "starts": starts, "born": self.born}
        remarks = {"doubt": self.doubt, "cut": self.cut, "paused": self.paused}
        return json.dumps(content | {name: remark for name, remark in remarks.items() if remark is not None})

    @classmethod
    def from_text(cls, text: str) -> "Generation":
        """Raises ConfigError for what is no note of ours."""
        try:
            content = json.loads(text)
            starts = {int(partition): int(offset) for partition, offset in content["starts"].items()}
            more = (str(content.get("born", "")), content.get("doubt"), content.get("cut"), content.get("paused"))
            return cls(int(content["generation"]), str(content["topic_id"]), starts, *more)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f"the note of the route's generation is damaged: {type(error).__name__}",
                next_step=f"another program wrote it; remove it where the rows are (its name begins with {NOTES}): "
                "all rows are then written again",
            ) from error


def note_name(pipeline: str, route: str) -> str:
    return f"{NOTES}{pipeline}.{route}"


def drawn() -> str:
    return uuid4().hex[:12]


class Gate:
    """Lets a route go on only while its topic and its note are those that it began with."""

    def __init__(
        self, store: VersionedStore, topics: Topics, topic: str, pipeline: str, route: str, *, rows_expire: bool = False
    ) -> None:
        """With `rows_expire` a store without rows is not taken for one that was emptied."""
        self._store = store
        self._topics = topics
        self._topic = topic
        self._note = note_name(pipeline, route)
        self._route = route
        self._rows_expire = rows_expire
        self.doubt: str | None = None
        """What the note said of it last."""

    def enter(self, committed: Callable[[], Sequence[Committed]]) -> Generation:
        """The route's generation, the first one if it has none. `committed` tells what its group has committed.

        Raises WouldLoseData for an unknown topic, Retryable for one that is not there.
        """
        known = self._store.load_note(self._note)
        if known is None:
            topic_id, partitions = self.topic_now()
            # Rows of an earlier generation may still be there, if the note alone is gone: newer than those.
            number = max((one.generation + 2 for one in committed()), default=1)
            first = Generation(number, topic_id, dict.fromkeys(partitions, 0), drawn())
            if self._store.save_note(self._note, first.to_text(), None):
                return first
            known = self._store.load_note(self._note)  # another instance was faster
        if known is None:
            raise Retryable("the note of the route's generation came and went", where=self._note)
        generation = Generation.from_text(known)
        self.doubt = generation.doubt
        self._verify_topic(generation)
        return self._born(known, generation, committed())

    def follow(self, stopping: threading.Event) -> Generation:
        """The generation that the route has entered, for those that write on its behalf. Raises as `enter` does."""
        end = time.monotonic() + _BEGINS_S
        while (known := self._store.load_note(self._note)) is None and not stopping.is_set():
            if time.monotonic() > end:
                raise Retryable("the route has not begun yet", where=f"route {self._route}")
            stopping.wait(_LOOK_S)
        if known is None:
            raise Retryable("the route was told to stop before it began", where=f"route {self._route}")
        generation = Generation.from_text(known)
        self._verify_topic(generation)
        return generation

    def _born(self, known: str, generation: Generation, committed: Sequence[Committed]) -> Generation:
        """The same, born anew when the store was emptied: the note may have outlived the rows."""
        has_written = any((one.generation, one.born) == (generation.number, generation.born) for one in committed)
        emptied = has_written and not self._rows_expire and self._store.is_empty()
        if generation.born and not emptied:
            return generation
        anew = replace(generation, born=drawn())
        if emptied and any(generation.starts.values()):
            # Rows from before were put in order by their times, which only a repair does.
            anew = replace(anew, doubt="the store was emptied, and rows from before its generation are missing")
        if not self._store.save_note(self._note, anew.to_text(), known):
            raise Retryable("another instance begins at the same time", where=self._note)
        return anew

    def verify(self, generation: Generation) -> None:
        """Everything that was read before this call was of the generation's topic: an id never comes back.

        Raises WouldLoseData when the topic is another now or has other partitions, AnotherGeneration when somebody
        raised the generation or emptied the store.
        """
        text = self._store.load_note(self._note)
        known = None if text is None else Generation.from_text(text)
        if known is None or known != generation:
            what = "is gone: the store was emptied" if known is None else "is another now: it was raised, or made anew"
            raise AnotherGeneration(f"the route's generation {what}", where=f"route {self._route}")
        self.doubt = known.doubt
        self._verify_topic(known)

    def remark(self, *, doubt: str | None = None, cut: str | None = None) -> None:
        """Keeps it in the note, for everybody, until somebody has dealt with it."""
        text = self._store.load_note(self._note)
        if text is None:
            return  # the store was emptied: the route begins anew
        known = Generation.from_text(text)
        remarked = replace(known, doubt=known.doubt or doubt, cut=known.cut or cut)
        self.doubt = remarked.doubt
        if remarked.to_text() != text and not self._store.save_note(self._note, remarked.to_text(), text):
            raise Retryable("the note of the route's generation changed meanwhile", where=self._note)

    def change(self, change: Callable[[Generation], Generation]) -> Generation:
        """Changes the note, which all instances follow within seconds. Raises ConfigError where there is none."""
        for _ in range(_TRIES):
            text = self._store.load_note(self._note)
            if text is None:
                raise ConfigError(
                    "this route has not begun yet, or its store was emptied: there is nothing to change",
                    where=f"route {self._route}",
                    next_step="start it with `enrich sync run -c FILE`",
                )
            changed = change(Generation.from_text(text))
            if changed.to_text() == text or self._store.save_note(self._note, changed.to_text(), text):
                return changed
        raise Retryable("the note of the route's generation changes all the time", where=self._note)

    def _verify_topic(self, generation: Generation) -> None:
        if generation.paused is not None:
            raise Paused(
                f"paused since {generation.paused}",
                where=f"route {self._route}",
                next_step=f"`enrich sync resume {self._route} -c FILE` lets it go on",
            )
        if generation.cut is not None:
            raise self._unknown(f"lost records that this route had read: {generation.cut}")
        topic_id, partitions = self.topic_now()
        if topic_id != generation.topic_id:
            raise self._unknown(
                "is not the one that this route wrote its rows from: it was made again under its name, or the route's "
                "`topic:` names another one now"
            )
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

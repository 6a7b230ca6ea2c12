"""The generation of a route: which topic its versions belong to. Offsets of a recreated topic start again at 0, below
the versions in the store, and every update would look like an old one.

It is kept in a note in the store, beside the rows that it describes: if the store is emptied, it is gone with them.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from enrich.base.errors import ConfigError, Fenced, Retryable, WouldLoseData
from enrich.delivery.partitions.positions import Committed
from enrich.kafka import Topics
from enrich.service.routes import Paused
from stores.clock import SystemClock
from stores.external import VersionedStore
from stores.external.protocol import NOTES
from stores.versions import LARGEST_GENERATION, OFFSETS_OF_A_GENERATION

OFFSETS = OFFSETS_OF_A_GENERATION
"""A version is generation * OFFSETS + offset."""


# How long the route of a retry topic waits for the note to be created, and how often it checks.
_BEGINS_S, _LOOK_S = 5.0, 0.1
_TRIES = 10
_BELOW_TIMES = 1_000
"""Up to this generation offsets give versions below those of times: the microseconds of any since 2005."""


class AnotherGeneration(Fenced):
    """The route's note was replaced while the route ran: it has to start again with the new one."""


@dataclass(frozen=True)
class Generation:
    """Which topic the route has read, and where in it the generation begins."""

    number: int
    topic_id: str
    starts: Mapping[int, int] = field(default_factory=dict)
    """For every partition, the first offset of this generation. Records before it belong to the previous generation,
    which only reconciliation writes. The route skips them: they were settled when the generation was raised."""
    born: str = ""
    """A random id, from the first note of a store; a new one if the store was emptied. Empty in older notes."""
    doubt: str | None = field(default=None, compare=False)
    """Why the store may have rows that the topic has not; removed by a comparison."""
    cut: str | None = field(default=None, compare=False)
    """Why the topic's offsets cannot be compared any more; removed when the generation is raised."""
    paused: str | None = field(default=None, compare=False)
    """When a person paused the route."""
    compared_ms: int | None = field(default=None, compare=False)
    """When topic and store were last compared, or the route began. None: an older release made the note."""
    versions: str | None = field(default=None, compare=False)
    """What gives rows their versions; see `WritebackPlan`. None: an older release made the note."""
    differing: int | None = field(default=None, compare=False)
    """How many rows differed when topic and store were last compared, without those that were repaired. None: they were
    not compared yet."""

    def version(self, partition: int, offset: int) -> int:
        past = offset < self.starts.get(partition, 0)
        return (self.number - past) * OFFSETS + offset

    def to_text(self) -> str:
        starts = {str(partition): offset for partition, offset in sorted(self.starts.items())}
        content = {"generation": self.number, "topic_id": self.topic_id, "starts": starts, "born": self.born}
        remarks = {"doubt": self.doubt, "cut": self.cut, "paused": self.paused, "compared_ms": self.compared_ms}
        remarks |= {"versions": self.versions, "differing": self.differing}
        return json.dumps(content | {name: remark for name, remark in remarks.items() if remark is not None})

    @classmethod
    def from_text(cls, text: str) -> "Generation":
        """Raises ConfigError if the text is not a note of ours."""
        try:
            content = json.loads(text)
            starts = {int(partition): int(offset) for partition, offset in content["starts"].items()}
            more = (str(content.get("born", "")), content.get("doubt"), content.get("cut"), content.get("paused"))
            compared = content.get("compared_ms")
            compared_ms = None if compared is None else int(compared)
            names = int(content["generation"]), str(content["topic_id"])
            differing = None if content.get("differing") is None else int(content["differing"])
            return cls(*names, starts, *more, compared_ms, content.get("versions"), differing)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f"the note of the route's generation is damaged: {type(error).__name__}",
                next_step=f"another program wrote it; remove it from the store (its name begins with {NOTES}): "
                "all rows are then written again",
            ) from error


def note_name(pipeline: str, route: str) -> str:
    return f"{NOTES}{pipeline}.{route}"


def may_fall(known: Generation, now: str | None) -> bool:
    """Whether newer rows may have lower versions than older ones, since something else gives them now."""
    if known.versions is None or now is None or known.versions == now:
        return False
    return known.versions != "" or not now.endswith(" timestamp") or known.number >= _BELOW_TIMES


def said_of(versions: str | None) -> str:
    return f"those of the column {versions}" if versions else "their offsets"


def random_id() -> str:
    return uuid4().hex[:12]


class Gate:
    """Lets a route continue only while its topic and its note are the ones that it started with."""

    def __init__(
        self,
        store: VersionedStore,
        topics: Topics,
        topic: str,
        pipeline: str,
        route: str,
        *,
        rows_expire: bool = False,
        versions: str | None = None,
    ) -> None:
        """With `rows_expire` a store without rows does not count as emptied. `versions`: what gives rows their
        versions; None: no row is written."""
        self._store = store
        self._topics = topics
        self._topic = topic
        self._note = note_name(pipeline, route)
        self._route = route
        self._rows_expire = rows_expire
        self._versions = versions
        self.doubt: str | None = None
        """The note's `doubt` when it was last read."""

    def enter(
        self,
        committed: Callable[[], Sequence[Committed]],
        tombstones_kept_ms: int | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> Generation:
        """The route's generation, which is created if there is none. `committed` returns what its group has committed.
        `tombstones_kept_ms`: for how long the topic keeps tombstones; None: for as long as its other records.

        Raises WouldLoseData if the topic is not the known one, Retryable if it does not exist, or if a stop comes while
        all rows are looked at.
        """
        known = self._store.load_note(self._note)
        if known is None:
            topic_id, partitions = self.topic_now()
            # If only the note is gone, rows of an earlier generation may still be there: ours must be newer.
            number = max((one.generation + 2 for one in committed()), default=1)
            number = max(number, self._above_rows(is_stopping))
            now_ms = SystemClock().now_ms()
            starts = dict.fromkeys(partitions, 0)
            first = Generation(number, topic_id, starts, random_id(), compared_ms=now_ms, versions=self._versions)
            if self._store.save_note(self._note, first.to_text(), None):
                return first
            known = self._store.load_note(self._note)  # another instance was faster
        if known is None:
            raise Retryable("the note of the route's generation was written and removed again", where=self._note)
        generation = Generation.from_text(known)
        self._verify_topic(generation)
        renewed = self._renewed(generation, committed(), tombstones_kept_ms)
        if renewed.to_text() != known and not self._store.save_note(self._note, renewed.to_text(), known):
            raise Retryable("another instance starts at the same time", where=self._note)
        self.doubt = renewed.doubt
        return renewed

    def _above_rows(self, is_stopping: Callable[[], bool]) -> int:
        """The generation whose offsets give versions above those of all rows that are there: a route may have written
        them that has another name now, and went on from a higher generation than the first."""
        if self._versions:
            return 1
        greatest = 0
        for rows in self._store.scan():
            if is_stopping():
                raise Retryable("a stop was requested before the route began", where=f"route {self._route}")
            greatest = max(greatest, *(version for version in rows.versions if version is not None), 0)
        return min(greatest // OFFSETS + 1, LARGEST_GENERATION)

    def follow(self, stopping: threading.Event) -> Generation:
        """The generation that the main route has entered, for the routes of retry topics. Raises as `enter` does."""
        end = time.monotonic() + _BEGINS_S
        while (known := self._store.load_note(self._note)) is None and not stopping.is_set():
            if time.monotonic() > end:
                raise Retryable("the route has not begun yet", where=f"route {self._route}")
            stopping.wait(_LOOK_S)
        if known is None:
            raise Retryable("a stop was requested before the route began", where=f"route {self._route}")
        generation = Generation.from_text(known)
        self._verify_topic(generation)
        return generation

    def _renewed(
        self, generation: Generation, committed: Sequence[Committed], tombstones_kept_ms: int | None
    ) -> Generation:
        """The same generation, with a new `born` if the store was emptied: the note may have survived the rows. With a
        doubt if nobody knows how far the store is, and the topic may have forgotten since what was deleted."""
        now_ms = SystemClock().now_ms()
        has_written = any((one.generation, one.born) == (generation.number, generation.born) for one in committed)
        emptied = has_written and not self._rows_expire and self._store.is_empty()
        versions = self._versions if self._versions is not None else generation.versions
        renewed = replace(generation, compared_ms=generation.compared_ms or now_ms, versions=versions)
        if emptied or not generation.born:
            renewed = replace(renewed, born=random_id())
        if emptied and any(generation.starts.values()):
            # Only a repair writes records from before the generation: it orders them by their timestamps.
            renewed = replace(renewed, doubt="the store was emptied, and rows from before its generation are missing")
        is_long_ago = tombstones_kept_ms is not None and now_ms - (generation.compared_ms or 0) > tombstones_kept_ms
        if not committed and is_long_ago and not renewed.doubt and not self._store.is_empty():
            what = "the route's consumer group has no offsets any more, as after days away (offsets.retention.minutes)"
            renewed = replace(renewed, doubt=f"{what}: keys that were deleted meanwhile may still be in the store")
        return renewed

    def verify(self, generation: Generation) -> None:
        """If it returns, all that was read before this call came from the generation's topic: ids are never reused.

        Raises WouldLoseData if the topic was recreated or has other partitions, AnotherGeneration if the generation was
        raised or the store emptied.
        """
        text = self._store.load_note(self._note)
        known = None if text is None else Generation.from_text(text)
        if known is None or known != generation:
            what = "is gone: the store was emptied" if known is None else "was raised or replaced"
            raise AnotherGeneration(f"the route's generation {what}", where=f"route {self._route}")
        self.doubt = known.doubt
        self._verify_topic(known)

    def remark(self, *, doubt: str | None = None, cut: str | None = None) -> None:
        """Writes doubt and cut into the note, where they stay until a comparison or a new generation removes them."""
        text = self._store.load_note(self._note)
        if text is None:
            return  # the store was emptied: the route will start again
        known = Generation.from_text(text)
        remarked = replace(known, doubt=known.doubt or doubt, cut=known.cut or cut)
        self.doubt = remarked.doubt
        if remarked.to_text() != text and not self._store.save_note(self._note, remarked.to_text(), text):
            raise Retryable("the note of the route's generation was changed by another instance", where=self._note)

    def change(self, change: Callable[[Generation], Generation]) -> Generation:
        """Changes the note; all instances follow within seconds. Raises ConfigError if there is none."""
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
        raise Retryable(f"the note of the route's generation changed during {_TRIES} tries", where=self._note)

    def _verify_topic(self, generation: Generation) -> None:
        if generation.paused is not None:
            raise Paused(
                f"paused since {generation.paused}",
                where=f"route {self._route}",
                next_step=f"run `enrich sync resume {self._route} -c FILE` to continue",
            )
        if generation.cut is not None:
            raise self._unknown(f"lost records that this route had read: {generation.cut}")
        if may_fall(generation, self._versions):
            raise WouldLoseData(
                f"the versions of its rows are {said_of(self._versions)} now, and were {said_of(generation.versions)}: "
                "newer rows may have lower ones than those in the store",
                where=f"route {self._route}",
                next_step=self._repair,
            )
        topic_id, partitions = self.topic_now()
        if topic_id != generation.topic_id:
            raise self._unknown(
                "is not the one that this route wrote its rows from: it was deleted and recreated, or the route's "
                "`topic:` names another one now"
            )
        if set(partitions) != set(generation.starts):
            raise self._unknown(f"has {len(partitions)} partitions and had {len(generation.starts)}")

    def topic_now(self) -> tuple[str, list[int]]:
        """Id and partitions. Retryable if the topic is missing: it may still come, as services start in any order."""
        try:
            return self._topics.identity(self._topic)
        except ConfigError as error:
            if self._topics.exists(self._topic):
                raise
            raise Retryable(
                "the topic does not exist", where=f"topic {self._topic}", next_step="create it, or correct its name"
            ) from error

    def _unknown(self, what: str) -> WouldLoseData:
        return WouldLoseData(
            f"the topic {what}: its offsets cannot be compared with the versions in the store",
            where=f"topic {self._topic}, route {self._route}",
            next_step=self._repair,
        )

    @property
    def _repair(self) -> str:
        return (
            f"run `enrich sync reconcile {self._route} --repair -c FILE`, which compares all rows, repairs what "
            "differs and raises the generation; the route then continues"
        )

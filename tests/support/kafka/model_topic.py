"""A topic without brokers: it knows every version that was ever written, and has a cleaner as eager as Kafka allows."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from enrich.base.errors import CorruptState
from enrich.host.claims.gaps import CLOCKS_DIFFER_MS
from enrich.host.claims.moments import Clocks
from enrich.host.claims.watch import Answer
from enrich.host.follow.tailer import Tailed
from enrich.host.load.reading import Batch
from enrich.kafka import TopicEnds, TopicSettings
from stores.table import Offsets, RowVersion

CLOCKS_ARE_CLOSE_MS = CLOCKS_DIFFER_MS - 10_000


@dataclass
class World:
    """Time as the brokers have it, and a host whose clock says something else."""

    now_ms: int = 1_700_000_000_000
    wrong_by_ms: int = 0

    @property
    def clocks(self) -> Clocks:
        return Clocks(
            _Reading(lambda: self.now_ms + self.wrong_by_ms), _Reading(lambda: self.now_ms - 1_600_000_000_000)
        )


@dataclass(frozen=True)
class _Reading:
    read: Callable[[], int]

    def now_ms(self) -> int:
        return self.read()


@dataclass
class _Partition:
    end: int = 0
    log: list[RowVersion] = field(default_factory=list)
    horizons: dict[int, int] = field(default_factory=dict)
    """Offset of a tombstone that was cleaned -> until when it stays."""


@dataclass
class Made:
    """One topic of the name: another one when it was deleted and recreated."""

    topic_id: str
    partitions: dict[int, _Partition]
    written: list[RowVersion] = field(default_factory=list)
    """Every version ever."""
    home: dict[bytes, int] = field(default_factory=dict)


class ModelTopic:
    name = "model"

    def __init__(self, world: World, settings: TopicSettings, chance: random.Random, partitions: int) -> None:
        self.world = world
        self.settings = settings
        self._chance = chance
        self.all: list[Made] = []
        self.make(partitions)

    @property
    def now(self) -> Made:
        return self.all[-1]

    def make(self, partitions: int) -> None:
        made = Made(f"topic-{len(self.all)}", {number: _Partition() for number in range(partitions)})
        self.all.append(made)

    def add_partition(self) -> None:
        self.now.partitions[len(self.now.partitions)] = _Partition()

    def write(self, key: bytes, value: bytes | None) -> None:
        made = self.now
        # A key stays where it was: in two partitions it would be a fault of the topic.
        number = made.home.setdefault(key, self._chance.randrange(len(made.partitions)))
        partition = made.partitions[number]
        version = RowVersion(key, number, partition.end, self.world.now_ms, value)
        partition.log.append(version)
        made.written.append(version)
        partition.end += self._chance.choice([1, 1, 2])  # where a transaction ends, there is an offset without a record

    def clean(self) -> None:
        """Everything that may go now, or some of it: a cleaner comes as far as its memory reaches."""
        now, settings = self.world.now_ms, self.settings
        for partition in self.now.partitions.values():
            dirty = 0
            for version in partition.log[:-1]:  # the last one stands in the segment that is being written
                if version.timestamp > now - max(settings.min_compaction_lag_ms, settings.open_ms):
                    break
                dirty += 1
            if self._chance.random() < 0.2:
                dirty = self._chance.randint(0, dirty)
            newest = {version.key: version.offset for version in partition.log[:dirty]}
            kept = []
            for version in partition.log[:dirty]:
                if newest[version.key] != version.offset:
                    continue
                if version.value is None and now > partition.horizons.setdefault(
                    version.offset, now + settings.delete_retention_ms
                ):
                    continue
                kept.append(version)
            partition.log = kept + partition.log[dirty:]

    def ends(self) -> dict[int, int]:
        return {number: partition.end for number, partition in self.now.partitions.items()}

    def from_(self, number: int, offset: int, most: int) -> list[RowVersion]:
        return [version for version in self.now.partitions[number].log if version.offset >= offset][:most]


def message(version: RowVersion) -> Message:
    return Message(
        topic=ModelTopic.name,
        partition=version.partition,
        offset=version.offset,
        key=version.key,
        value=version.value,
        timestamp=(1, version.timestamp),
    )


class ModelTailer:
    """In the place of a `Tailer`."""

    def __init__(self, topic: ModelTopic) -> None:
        self._topic = topic
        self._followed: dict[str, dict[int, int]] = {}

    @property
    def followed(self) -> dict[str, dict[int, int]]:
        return self._followed

    def follow(self, table: str, topic: str, positions: Offsets, epochs: Offsets | None = None) -> None:  # noqa: ARG002
        ahead = self._followed.setdefault(topic, {})
        ahead.update({p: offset for p, offset in positions.items() if p not in ahead or offset < ahead[p]})

    def follow_from_start(self, topic: str, partitions: list[int]) -> None:
        self._followed.setdefault(topic, {}).update(dict.fromkeys(partitions, 0))

    def expect(self, topic: str, ends: Offsets) -> None:
        """Nothing: this client never falls silent."""

    def leave(self, table: str, topic: str) -> None:  # noqa: ARG002
        self._followed.pop(topic, None)

    def poll(self, most: int) -> Tailed | None:
        followed = self._followed.get(ModelTopic.name)
        if followed is None:
            return None
        tailed, ends = Tailed(), self._topic.ends()
        for number, position in followed.items():
            if position > ends.get(number, -1):
                tailed.fault = CorruptState("offset out of range")
                self._followed.pop(ModelTopic.name)
                return tailed
            versions = self._topic.from_(number, position, most)
            tailed.messages += map(message, versions)
            if versions:
                tailed.positions[number] = versions[-1].offset + 1
            if len(versions) < most:
                tailed.positions[number] = ends[number]
        followed.update(tailed.positions)
        return tailed


@dataclass
class ModelSource:
    """The topic as a load reads it, while the world goes on."""

    topic: ModelTopic
    meanwhile: Callable[[], None]
    most: int = 4

    def topic_id(self) -> str:
        return self.topic.now.topic_id

    def starts(self) -> Offsets:
        return dict.fromkeys(self.topic.now.partitions, 0)

    def ends(self) -> Offsets:
        return self.topic.ends()

    def first_since(self, time_ms: int) -> Offsets:
        return {
            number: next((v.offset for v in partition.log if v.timestamp >= time_ms), partition.end)
            for number, partition in self.topic.now.partitions.items()
        }

    def read(self, starts: Offsets, ends: Offsets, epochs: Offsets) -> Iterator[Batch]:  # noqa: ARG002
        for number, end in ends.items():
            position = starts.get(number, 0)
            while position < end:
                if number not in self.topic.now.partitions:
                    raise CorruptState("there is no such partition")
                versions = [v for v in self.topic.from_(number, position, self.most) if v.offset < end]
                position = versions[-1].offset + 1 if versions else end
                if versions:
                    yield Batch.of(list(map(message, versions)))
                self.meanwhile()


def answer_of(topic: ModelTopic, meanwhile: Callable[[], None]) -> Answer:
    """What the watch hears. The request is on its way for a while."""
    asked = topic.world.clocks.now()
    meanwhile()
    return Answer(asked, TopicEnds(topic.now.topic_id, topic.ends()), topic.settings)


class AtOnce(Executor):
    """Has done what it is given when it returns."""

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(task(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as executors do
            future.set_exception(error)
        return future

"""Follows topics by hand-assigned partitions, and says for each what came, how far it is read, and what is wrong.

A consumer hands out what it fetched in the order in which it came: a hundred thousand records of a partition that is
far behind stand before the one that another topic has just got. So such a partition is read by a second consumer, a few
records at a time, until it is near its end.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from enrich.base.errors import CorruptState, EnrichError
from enrich.kafka.clients.errors import kafka_errors, mapped
from stores.table import Offsets


@dataclass
class Tailed:
    """What one poll brought of one topic."""

    messages: list[Message] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    """Partition -> everything below is read. Moves over compaction gaps and transaction markers too."""
    epochs: dict[int, int] = field(default_factory=dict)
    """Partition -> of which leader's term its last record is."""
    fault: EnrichError | None = None
    """Set when this topic cannot be followed from here: only a rebuild is right."""


_FAR = 20_000
"""Records behind from which on a partition is far from its end."""

_NEAR = 1_000

_FAR_AT_ONCE = 2_000
"""Records of partitions far behind in one poll: few, since all of a poll is published before the next."""

_PartitionOf = tuple[str, int]
"""Topic and partition."""


class Tailer:
    """The consumers of a store; topics and partitions come and go while they run."""

    def __init__(self, new_consumer: Callable[[], Consumer]) -> None:
        self._new_consumer = new_consumer
        self._consumer = new_consumer()
        self._patient: Consumer | None = None
        """Reads what is far behind. There is one only while something is."""
        self._far: set[_PartitionOf] = set()
        self._followed: dict[str, dict[int, int]] = {}
        self._followers: dict[str, set[str]] = {}

    @property
    def followed(self) -> Mapping[str, Offsets]:
        """For each topic and partition the offset that is read next."""
        return self._followed

    def follow(self, table: str, topic: str, positions: Offsets, epochs: Offsets | None = None) -> None:
        """Reads these partitions for the table from these offsets on. One that is followed from a later offset, for
        another table of the topic, goes back.

        `epochs`: of which leader's term the record before each offset is. With it the brokers are asked whether what
        stood there was cut off since, which an offset alone does not show once others took its place.
        """
        self._followers.setdefault(topic, set()).add(table)
        ahead = self._followed.setdefault(topic, {})
        behind = {p: offset for p, offset in positions.items() if p not in ahead or offset < ahead[p]}
        self._drop(topic, [partition for partition in behind if partition in ahead])
        known = epochs or {}
        places = [TopicPartition(topic, p, offset, leader_epoch=known.get(p, -1)) for p, offset in behind.items()]
        with kafka_errors(f"topic {topic}"):
            self._consumer.incremental_assign(places)
        ahead.update(behind)

    def follow_from_start(self, topic: str, partitions: Iterable[int]) -> None:
        """Reads these partitions from the first record that they have."""
        new = dict.fromkeys(partitions, OFFSET_BEGINNING)
        with kafka_errors(f"topic {topic}"):
            self._consumer.incremental_assign([TopicPartition(topic, p, offset) for p, offset in new.items()])
        self._followed.setdefault(topic, {}).update(new)

    def leave(self, table: str, topic: str) -> None:
        """Reads the topic no more for this table, and not at all when no other table follows it."""
        followers = self._followers.get(topic, set())
        followers.discard(table)
        if not followers:
            self._stop(topic)

    def poll(self, most: int, seconds: float) -> dict[str, Tailed]:
        """What came within the time, at most so many records. A topic with a fault is left by itself."""
        came: dict[str, Tailed] = {}
        with kafka_errors():
            events = self._consumer.consume(most, 0 if self._patient else seconds)
            if self._patient is not None:
                events += self._patient.consume(min(most, _FAR_AT_ONCE), seconds)
        for message in events:
            self._take(message, came)
        for topic, tailed in came.items():
            if tailed.fault is not None:
                self._stop(topic)
                continue
            self._followed[topic].update(tailed.positions)
            last = {message.partition() or 0: message.leader_epoch() for message in tailed.messages}
            tailed.epochs = {partition: epoch for partition, epoch in last.items() if epoch is not None}
            self._hand_over(topic, tailed)
        if self._patient is not None and not self._far:
            self._patient.close()
            self._patient = None
        return came

    def close(self) -> None:
        self._consumer.close()
        if self._patient is not None:
            self._patient.close()

    def _stop(self, topic: str) -> None:
        self._followers.pop(topic, None)
        self._drop(topic, list(self._followed.pop(topic, {})))

    def _drop(self, topic: str, partitions: list[int]) -> None:
        for partition in partitions:
            with kafka_errors(f"topic {topic}"):
                self._reads((topic, partition)).incremental_unassign([TopicPartition(topic, partition)])
            self._far.discard((topic, partition))

    def _reads(self, partition: _PartitionOf) -> Consumer:
        """The consumer that reads the partition."""
        return self._patient if self._patient is not None and partition in self._far else self._consumer

    def _hand_over(self, topic: str, tailed: Tailed) -> None:
        """Gives partitions of what came to the other consumer: those far from their end, and those near it again."""
        for partition, position in tailed.positions.items():
            here = (topic, partition)
            is_far, behind = here in self._far, self._behind(here, position)
            if is_far == (behind > (_NEAR if is_far else _FAR)) or (not is_far and len(self._followed) == 1):
                continue
            if self._patient is None:
                self._patient = self._new_consumer()
            with kafka_errors(f"topic {topic}"):
                self._reads(here).incremental_unassign([TopicPartition(*here)])
                self._far ^= {here}
                from_there = TopicPartition(topic, partition, position, leader_epoch=tailed.epochs.get(partition, -1))
                self._reads(here).incremental_assign([from_there])

    def _behind(self, partition: _PartitionOf, position: int) -> int:
        # What the last fetch told: nobody is asked.
        ends = self._reads(partition).get_watermark_offsets(TopicPartition(*partition), cached=True)
        return 0 if ends is None else ends[1] - position

    def _take(self, message: Message, came: dict[str, Tailed]) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or partition not in self._followed.get(topic, {}):
            return  # about the client and not a place, or left in the meantime
        tailed = came.setdefault(topic, Tailed())
        error = message.error()
        if error is None and offset is not None:
            tailed.messages.append(message)
            tailed.positions[partition] = offset + 1
        elif error is not None and error.code() == KafkaError._PARTITION_EOF and offset is not None:
            tailed.positions[partition] = max(offset, tailed.positions.get(partition, 0))
        elif error is not None and not error.retriable():
            fault = mapped(error, f"topic {topic}, partition {partition}, offset {offset}")
            if isinstance(fault, CorruptState):
                tailed.fault = fault

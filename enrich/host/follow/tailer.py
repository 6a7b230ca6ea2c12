"""Follows topics with manually assigned partitions. Returns each topic's records, positions and faults.

A consumer returns records in the order in which it fetched them: a hundred thousand records of a partition that is far
behind come before the one new record of another topic. So a second consumer reads such a partition, a few records at a
time, until it is near its end.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from enrich.base.errors import CorruptState, EnrichError
from enrich.kafka.clients.errors import kafka_errors, mapped
from stores.table import Offsets

_log = logging.getLogger(__name__)


@dataclass
class Tailed:
    """What one poll returned for one topic."""

    messages: list[Message] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    """Partition -> everything below is read. Advances over compaction gaps and transaction markers too."""
    epochs: dict[int, int] = field(default_factory=dict)
    """Partition -> the leader epoch of the record before its position; -1: not known."""
    fault: EnrichError | None = None
    """Set when this topic cannot be followed from here: its table must be loaded anew."""


_FAR = 20_000
"""A partition that is more records behind than this is far from its end."""

_NEAR = 1_000
"""A far partition that is at most so many records behind is near its end again."""

_FAR_AT_ONCE = 2_000
"""Records of far partitions in one poll: few, since everything polled is published before the next poll."""

_GATHER_S = 0.01
"""How long to wait for more records when there are some: each publication has its cost."""

_PATIENCE = 50
"""Answers of the brokers, five a second, in which records are due and none comes, until the client is replaced."""

_PartitionOf = tuple[str, int]
"""Topic and partition."""


@dataclass
class _Silence:
    """A topic of which records are due."""

    due: Offsets
    """Where the partitions stand that have some."""
    answers: int = 0
    patience: int = _PATIENCE


class Tailer:
    """The consumers of a store. Topics and partitions may be added and removed while they run."""

    def __init__(self, new_consumer: Callable[[], Consumer]) -> None:
        self._new_consumer = new_consumer
        self._consumer = new_consumer()
        self._far_consumer: Consumer | None = None
        """Reads the partitions that are far behind. None while there are none."""
        self._far: set[_PartitionOf] = set()
        self._followed: dict[str, dict[int, int]] = {}
        self._followers: dict[str, set[str]] = {}
        self._epochs: dict[_PartitionOf, int] = {}
        """The leader epoch of the record before the offset to read next, where it is known."""
        self._silences: dict[str, _Silence] = {}

    @property
    def followed(self) -> Mapping[str, Offsets]:
        """For each topic and partition the offset to read next."""
        return self._followed

    def follow(self, table: str, topic: str, positions: Offsets, epochs: Offsets | None = None) -> None:
        """Reads these partitions for the table from these offsets on. If another table of the topic follows a partition
        from a later offset, the partition is read again from the earlier one.

        `epochs`: the leader epoch of the record before each offset. With it the brokers detect that this record was
        truncated since; the offset alone does not show that once other records have taken it.
        """
        self._followers.setdefault(topic, set()).add(table)
        ahead = self._followed.setdefault(topic, {})
        behind = {p: offset for p, offset in positions.items() if p not in ahead or offset < ahead[p]}
        self._drop(topic, [partition for partition in behind if partition in ahead])
        known = epochs or {}
        self._epochs.update({(topic, p): known.get(p, -1) for p in behind})
        self._assign(topic, behind)

    def follow_from_start(self, topic: str, partitions: Iterable[int]) -> None:
        """Reads these partitions from their first record on."""
        self._assign(topic, dict.fromkeys(partitions, OFFSET_BEGINNING))

    def expect(self, topic: str, ends: Offsets) -> None:
        """Takes an answer of the brokers: where the partitions end. If records are due and none comes for many answers,
        the client is replaced: it has lost the topic, as seen once after a topic was deleted and recreated."""
        due = {p: at for p, at in self._followed.get(topic, {}).items() if ends.get(p, 0) > max(at, 0)}
        silence = self._silences.pop(topic, None)
        if not due:
            return
        if silence is None or silence.due != due:
            silence = _Silence(due)
        self._silences[topic] = silence
        silence.answers += 1
        if silence.answers >= silence.patience:
            silence.answers, silence.patience = 0, 2 * silence.patience
            _log.warning("records are due and none comes: another client reads on", extra={"topic": topic})
            self._replace()

    def leave(self, table: str, topic: str) -> None:
        """Stops reading the topic for this table. It is not read at all when no other table follows it."""
        followers = self._followers.get(topic, set())
        followers.discard(table)
        if not followers:
            self._stop(topic)

    def poll(self, most: int, seconds: float) -> dict[str, Tailed]:
        """What arrives, at most `most` records: waits `seconds` for the first one, and a moment for those after it. A
        topic with a fault is no longer followed."""
        came: dict[str, Tailed] = {}
        with kafka_errors():
            if self._far_consumer is not None:
                events = self._consumer.consume(most, 0)
                events += self._far_consumer.consume(min(most, _FAR_AT_ONCE), _GATHER_S)
            elif (first := self._consumer.poll(seconds)) is not None:
                events = [first, *self._consumer.consume(most - 1, _GATHER_S)] if most > 1 else [first]
            else:
                events = []
        for message in events:
            self._take(message, came)
        for topic, tailed in came.items():
            if tailed.fault is not None:
                self._stop(topic)
                continue
            moved = {p: at for p, at in tailed.positions.items() if at != self._followed[topic][p]}
            self._followed[topic].update(tailed.positions)
            last = {message.partition() or 0: message for message in tailed.messages}
            # Of a partition that only said that there is no more, the epoch is still known.
            for partition, position in moved.items():
                # Beyond the last record, as after a transaction's marker, the epoch is another one.
                is_next = partition in last and last[partition].offset() == position - 1
                epoch = last[partition].leader_epoch() if is_next else None
                tailed.epochs[partition] = self._epochs[topic, partition] = -1 if epoch is None else epoch
            self._hand_over(topic, tailed)
        if self._far_consumer is not None and not self._far:
            self._far_consumer.close()
            self._far_consumer = None
        return came

    def close(self) -> None:
        self._consumer.close()
        if self._far_consumer is not None:
            self._far_consumer.close()

    def _stop(self, topic: str) -> None:
        self._followers.pop(topic, None)
        self._silences.pop(topic, None)
        self._drop(topic, list(self._followed.pop(topic, {})))

    def _drop(self, topic: str, partitions: list[int]) -> None:
        for partition in partitions:
            with kafka_errors(f"topic {topic}"):
                self._reads((topic, partition)).incremental_unassign([TopicPartition(topic, partition)])
            self._far.discard((topic, partition))
            self._epochs.pop((topic, partition), None)

    def _assign(self, topic: str, offsets: Offsets) -> None:
        if not offsets:
            return
        with kafka_errors(f"topic {topic}"):
            self._consumer.incremental_assign([self._position(topic, p, offset) for p, offset in offsets.items()])
        self._followed.setdefault(topic, {}).update(offsets)

    def _position(self, topic: str, partition: int, offset: int) -> TopicPartition:
        return TopicPartition(topic, partition, offset, leader_epoch=self._epochs.get((topic, partition), -1))

    def _replace(self) -> None:
        """Reads all that is followed with another client."""
        self.close()
        self._far_consumer, self._far = None, set()
        self._consumer = self._new_consumer()
        for topic, followed in self._followed.items():
            self._assign(topic, followed)

    def _reads(self, partition: _PartitionOf) -> Consumer:
        """The consumer that reads the partition."""
        return self._far_consumer if self._far_consumer is not None and partition in self._far else self._consumer

    def _hand_over(self, topic: str, tailed: Tailed) -> None:
        """Moves partitions between the consumers: to the second those far from their end, back those near it again."""
        for partition, position in tailed.positions.items():
            here = (topic, partition)
            is_far, behind = here in self._far, self._behind(here, position)
            if is_far == (behind > (_NEAR if is_far else _FAR)) or (not is_far and len(self._followed) == 1):
                continue
            if self._far_consumer is None:
                self._far_consumer = self._new_consumer()
            with kafka_errors(f"topic {topic}"):
                self._reads(here).incremental_unassign([TopicPartition(*here)])
                self._far ^= {here}
                self._reads(here).incremental_assign([self._position(topic, partition, position)])

    def _behind(self, partition: _PartitionOf, position: int) -> int:
        # As of the last fetch: no request is sent.
        ends = self._reads(partition).get_watermark_offsets(TopicPartition(*partition), cached=True)
        return 0 if ends is None else ends[1] - position

    def _take(self, message: Message, came: dict[str, Tailed]) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or partition not in self._followed.get(topic, {}):
            return  # an error of the client and not of a partition, or the partition is no longer followed
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

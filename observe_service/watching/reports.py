"""Reads the topic of tallies from a time on, and says up to when all of it is read."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from enrich.base.backoff import Backoff
from enrich.base.errors import BadRecord, EnrichError
from enrich.kafka import Connection, Topics, new_store_consumer
from enrich.kafka.clients.errors import NO_MEMBER, kafka_errors, mapped
from enrich.tally import Report, decoded

_log = logging.getLogger("enrich.observe")

_BATCH = 500
_GROWTH_EVERY_S = 30.0


@dataclass(frozen=True)
class Said:
    report: Report
    at_ms: int
    """When the brokers had it."""
    size: int


class Reports:
    """For one thread."""

    def __init__(self, connection: Connection, topics: Topics, topic: str) -> None:
        self._connection = connection
        self._topics = topics
        self._topic = topic
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        self._seen_ms: dict[int, int] = {}
        """By partition that is read: up to when all of it is."""
        self._from_ms = 0
        self._backoff = Backoff(0.5, 10.0)
        self._due_s = 0.0
        self._look_s = 0.0
        self.trouble: str | None = None
        self.unreadable = 0
        """Records that are no report."""

    def begin(self, from_ms: int) -> None:
        """Raises what keeps it from that."""
        self._next = self._topics.offsets_at(self._topic, from_ms)
        self._seen_ms = dict.fromkeys(self._next, from_ms)
        self._assign()

    @property
    def until_ms(self) -> int:
        """Up to when all that was said is given out."""
        return min(self._seen_ms.values(), default=self._from_ms)

    def poll(self, patience_s: float) -> Sequence[Said]:
        """What has come. An error makes it try again after a pause; meanwhile it gives out nothing."""
        if self._consumer is None:
            if time.monotonic() < self._due_s:
                time.sleep(min(patience_s, 0.2))
                return []
            try:
                self._assign()
            except EnrichError as error:
                self._failed(error)
                return []
        found: list[Said] = []
        try:
            self._poll(patience_s, found)
        except EnrichError as error:
            self._failed(error)
        return found  # also what came before an error: it is not read again

    def at_ends(self, at_ms: int, ends: Mapping[int, int]) -> None:
        """`ends`: of the topic's partitions, as they were then or later. What is read up to there is all until then."""
        if not ends.keys() <= self._seen_ms.keys():
            self._look_s = 0.0  # the topic has more partitions: what is said there is not read yet
            return
        for partition, end in ends.items():
            if self._next.get(partition, 0) >= end:
                self._seen_ms[partition] = max(self._seen_ms.get(partition, 0), at_ms)

    def made_again(self) -> None:
        """The topic: it is read from its beginning."""
        self.close()
        self._from_ms, self._next, self._seen_ms = self.until_ms, {}, {}

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _poll(self, patience_s: float, found: list[Said]) -> None:
        if self._consumer is None:
            return
        self._look_for_more()
        with kafka_errors(f"topic {self._topic}"):
            messages = self._consumer.consume(_BATCH, patience_s)
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    # The last may be the marker of a transaction, which is no message.
                    if partition is not None and offset is not None:
                        self._next[partition] = max(self._next.get(partition, 0), offset)
                elif not error.retriable() and error.code() != NO_MEMBER:
                    raise mapped(error, f"topic {self._topic}")
                continue
            if partition is None or offset is None:
                continue
            self._next[partition] = offset + 1
            said = self._said(message)
            self._seen_ms[partition] = max(self._seen_ms.get(partition, 0), message.timestamp()[1])
            if said is not None:
                found.append(said)
        if messages:
            self._well()

    def _said(self, message: Message) -> Said | None:
        value = message.value()
        if value is None:
            return None
        try:
            return Said(decoded(value), message.timestamp()[1], len(value))
        except BadRecord as error:
            self.unreadable += 1
            if self.unreadable == 1:
                extra = {"topic": self._topic, "partition": message.partition(), "offset": message.offset()}
                _log.warning("a record is no report: %s", error, extra=extra)
            return None

    def _assign(self) -> None:
        self.close()
        self._consumer = new_store_consumer(self._connection)
        starts = self._topics.start_offsets(self._topic)
        with kafka_errors(f"topic {self._topic}"):
            # What is deleted by now was older than anything that is still judged.
            places = [
                TopicPartition(self._topic, partition, max(self._next.get(partition, 0), start))
                for partition, start in starts.items()
            ]
            self._consumer.assign(places)
        until_ms = self.until_ms
        for partition in starts:
            self._seen_ms.setdefault(partition, until_ms)

    def _look_for_more(self) -> None:
        """Partitions that the topic was given meanwhile are read from their beginning."""
        if time.monotonic() < self._look_s:
            return
        self._look_s = time.monotonic() + _GROWTH_EVERY_S
        if {*self._topics.partitions(self._topic)} != {*self._seen_ms}:
            self._assign()

    def _failed(self, error: EnrichError) -> None:
        if self.trouble is None:
            _log.warning("tallies cannot be read: %s", error, extra={"topic": self._topic})
        self.trouble = str(error)
        self.close()
        self._due_s = time.monotonic() + self._backoff.next_s()

    def _well(self) -> None:
        if self.trouble is not None:
            _log.info("tallies are read again", extra={"topic": self._topic})
        self.trouble = None
        self._backoff.reset()

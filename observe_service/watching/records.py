"""Which offsets of topics have records that anybody can read: not the markers of transactions, nor what was aborted,
compacted or deleted."""

import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from enrich.kafka import Connection, Topics, new_store_consumer
from enrich.kafka.clients.errors import kafka_errors, mapped
from enrich.tally import Origins
from enrich.tally.origins import Place, Range

_SMALL: Mapping[str, int] = {"max.partition.fetch.bytes": 32_768, "queued.min.messages": 1}
"""Mostly it is the first record behind a hole that is wanted."""
_BATCH = 1_000
_PATIENCE_S = 3.0
_MOST_FOUND = 1_000
"""In a range: behind so many records it is not looked into any further."""
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class Records:
    """For one thread."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection = {**connection, **_SMALL}
        self._topics = topics
        self._consumer: Consumer | None = None

    def within(self, ranges: Iterable[Range]) -> tuple[Origins, Origins]:
        """Where there are some, and where there are none. Of what the brokers do not answer soon, of a transaction that
        is open, or of what lies behind very many records of a range, neither is said."""
        found, empty = Origins(), Origins()
        left: dict[Place, list[Range]] = {}
        for each in ranges:
            left.setdefault(each[:2], []).append(each)
        end_s = time.monotonic() + _PATIENCE_S
        while left and time.monotonic() < end_s:
            # A range of each partition at a time.
            now = [some.pop(0) for some in left.values()]
            for one in self._looked_into(now, end_s):
                found, empty = found | one[0], empty | one[1]
            left = {place: some for place, some in left.items() if some}
        return found, empty

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _looked_into(self, ranges: Sequence[Range], end_s: float) -> Sequence[tuple[Origins, Origins]]:
        """`ranges`: one of each partition."""
        self._consumer = self._consumer or new_store_consumer(self._connection)
        looks = {(topic, partition): _Look(topic, partition, first, last) for topic, partition, first, last in ranges}
        with kafka_errors():
            self._consumer.assign([TopicPartition(*place, look.first) for place, look in looks.items()])
        while any(not look.is_done for look in looks.values()) and time.monotonic() < end_s:
            with kafka_errors():
                first = self._consumer.poll(0.1)  # `consume` would wait for as many as it may return
                messages = [] if first is None else [first, *self._consumer.consume(_BATCH, 0)]
            for message in messages:
                look = looks.get((message.topic() or "", message.partition() or 0))
                if look is not None:
                    self._take(look, message)
        with kafka_errors():
            self._consumer.unassign()
        return [look.seen() for look in looks.values()]

    def _take(self, look: "_Look", message: Message) -> None:
        error, offset = message.error(), message.offset()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            if offset is not None:
                look.take(offset, is_record=error is None)
        elif error.code() in _GONE:
            # Retention has deleted its beginning, or all of it.
            look.take(self._topics.start_offsets(look.topic)[look.partition], is_record=False)
        elif not error.retriable():
            raise mapped(error, f"topic {look.topic}, partition {look.partition}")


class _Look:
    """Into a range of a partition, in order."""

    def __init__(self, topic: str, partition: int, first: int, last: int) -> None:
        self.topic, self.partition, self.first, self.last = topic, partition, first, last
        self._offsets: list[int] = []
        self._until = first
        """Below it all is known."""
        self.is_done = False

    def take(self, offset: int, *, is_record: bool) -> None:
        """All records below `offset` were taken before. There is none at the end of a partition: nobody can read on
        there now."""
        if is_record and offset <= self.last:
            self._offsets.append(offset)
        self._until = max(self._until, offset + is_record)
        is_enough = self._until > self.last or len(self._offsets) >= _MOST_FOUND
        self.is_done = self.is_done or is_enough or not is_record

    def seen(self) -> tuple[Origins, Origins]:
        found = Origins.of_offsets(self.topic, self.partition, self._offsets)
        last = min(self._until - 1, self.last)
        return found, Origins.of_ranges([(self.topic, self.partition, self.first, last)]) - found

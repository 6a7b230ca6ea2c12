"""Where many topics end, asked in one request a broker: nothing of Python waits for each partition."""

from collections.abc import Collection, Mapping

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from enrich.kafka.clients.errors import kafka_errors, mapped
from enrich.kafka.clients.making import Connection, new_store_consumer


class ManyEnds:
    """For one thread."""

    def __init__(self, connection: Connection, deadline_s: float) -> None:
        self._connection = connection
        self._deadline_s = deadline_s
        self._consumer: Consumer | None = None

    def of(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, Mapping[int, int]]:
        """The last stable offsets of these topics' partitions. Raises the error of any of them: `Topics.ends` says of
        which."""
        ends: dict[str, dict[int, int]] = {name: {} for name in topics}
        asked = [TopicPartition(name, number, OFFSET_END) for name, numbers in topics.items() for number in numbers]
        if not asked:
            return ends
        self._consumer = self._consumer or new_store_consumer(self._connection)
        with kafka_errors():
            answered = self._consumer.offsets_for_times(asked, timeout=self._deadline_s)
        for one in answered:
            if one.error is not None:
                raise mapped(one.error, f"topic {one.topic}, partition {one.partition}")
            ends[one.topic][one.partition] = one.offset
        return ends

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

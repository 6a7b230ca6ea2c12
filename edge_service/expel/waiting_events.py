"""Which events of a partition wait in the retry topics, for a route that keeps the order of keys."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from edge_service.expel.order import KeyOrder
from edge_service.expel.plan import ExpelPlan
from enrich.base.errors import Retryable
from enrich.delivery.plan import PartitionId
from enrich.kafka import Topics, kafka_errors, new_group_consumer, new_store_consumer
from enrich.kafka.clients.making import Connection
from enrich.kafka.groups import committed
from enrich.kafka.retries import TRIES, as_first_read

_DEADLINE_S = 60.0


def known_in(plan: ExpelPlan, connection: Connection, topics: Topics, order: KeyOrder) -> Callable[[PartitionId], None]:
    """To be called with each partition that was assigned, before anything of it is read."""

    def begin(partition: PartitionId) -> None:
        topic, number = partition
        if topic == plan.section.topic:
            order.knows(number, _waiting(plan, connection, topics, number))

    return begin


def _waiting(plan: ExpelPlan, connection: Connection, topics: Topics, number: int) -> Iterator[tuple[bytes, int, int]]:
    # In this order: an event that is forwarded meanwhile is found in both, and not in neither.
    with closing(new_store_consumer(connection)) as reader:
        for pause, topic in enumerate(plan.retry_in):
            for message in _uncommitted(reader, connection, plan.retrier_group, topics, topic, number):
                yield from _named(message, pause)
        for message in _uncommitted(reader, connection, plan.group, topics, plan.retry_out, number):
            yield from _named(message, None)


def _named(message: Message, pause: int | None) -> Iterator[tuple[bytes, int, int]]:
    event = as_first_read(message)
    if event.key is not None:
        tries = dict(message.headers() or []).get(TRIES) or b"0"
        yield event.key, event.offset, int(tries) if pause is None else pause


def _uncommitted(
    reader: Consumer, connection: Connection, group: str, topics: Topics, topic: str, number: int
) -> Iterator[Message]:
    """The records of a partition that this group has not committed."""
    end = topics.end_offsets(topic).get(number, 0)
    with closing(new_group_consumer(connection, group)) as member:
        reached = committed(member, group, topic, [number])
    with kafka_errors(f"topic {topic}"):
        low, _ = reader.get_watermark_offsets(TopicPartition(topic, number), timeout=_DEADLINE_S, cached=False)
        start = max(low, reached[0].offset if reached else 0)
        if start >= end:
            return
        reader.assign([TopicPartition(topic, number, start)])
    deadline = time.monotonic() + _DEADLINE_S
    position = start
    while position < end:
        with kafka_errors(f"topic {topic}"):
            messages = reader.consume(1_000, 0.2)
        for message in messages:
            error = message.error()
            if error is None and (message.offset() or 0) < end:
                position = (message.offset() or 0) + 1
                yield message
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                position = end
        if time.monotonic() > deadline:
            raise Retryable(f"partition {number} cannot be read to its end", where=f"topic {topic}")

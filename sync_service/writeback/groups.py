"""Reads and takes over what consumer groups have committed."""

from contextlib import closing, suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from enrich.delivery.partitions.positions import Committed
from enrich.kafka import Connection, Topics, new_group_consumer
from enrich.kafka.groups import committed
from sync_service.writeback.plan import WritebackPlan


def committed_of(consumer: Consumer, group: str, topics: Topics, topic: str) -> list[Committed]:
    """What the consumer's group has committed, without what other programs committed."""
    offsets = committed(consumer, group, topic, topics.partitions(topic))
    known = (Committed.from_text(each.metadata) for each in offsets)
    return [one for one in known if one is not None]


def adopt(plan: WritebackPlan, connection: Connection, topics: Topics, topic: str) -> None:
    """If the group of a retry topic has committed nothing, it takes over the offsets of an earlier release's group."""
    if not any(topics.end_offsets(topic).values()):
        return
    partitions, group = topics.partitions(topic), plan.group_of(topic)
    if reached(connection, group, topic, partitions):
        return
    found = [reached(connection, before, topic, partitions) for before in plan.groups_before()]
    furthest = max(found, key=lambda offsets: sum(each.offset for each in offsets))
    if furthest:
        with closing(new_group_consumer(connection, group)) as consumer, suppress(KafkaException):
            # Refused if another instance is active already: it has done the same.
            consumer.commit(offsets=furthest, asynchronous=False)


def reached(connection: Connection, group: str, topic: str, partitions: list[int]) -> list[TopicPartition]:
    with closing(new_group_consumer(connection, group)) as consumer:
        return committed(consumer, group, topic, partitions)

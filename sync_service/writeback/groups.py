"""Reads and takes over what consumer groups have committed."""

from contextlib import closing, suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from enrich.delivery.positions import Committed
from enrich.kafka import Connection, Topics, kafka_errors, new_group_consumer
from sync_service.writeback.plan import WritebackPlan

_DEADLINE_S = 10.0


def committed_of(consumer: Consumer, topics: Topics, topic: str) -> list[Committed]:
    """What the consumer's group has committed, without what other programs committed.

    Not with the admin client: its call crashes the process while a group's coordinator moves (librdkafka 2.16).
    """
    partitions = [TopicPartition(topic, partition) for partition in topics.partitions(topic)]
    with kafka_errors(f"topic {topic}"):
        found = consumer.committed(partitions, timeout=_DEADLINE_S)
    known = (Committed.from_text(each.metadata) for each in found if each.offset >= 0)
    return [one for one in known if one is not None]


def adopt(plan: WritebackPlan, connection: Connection, topics: Topics, topic: str) -> None:
    """If the group of a retry topic has committed nothing, it takes over the offsets of an earlier release's group."""
    if not any(topics.end_offsets(topic).values()):
        return
    partitions = [TopicPartition(topic, partition) for partition in topics.partitions(topic)]
    group = plan.group_of(topic)
    if reached(connection, group, partitions):
        return
    found = [reached(connection, before, partitions) for before in plan.groups_before()]
    furthest = max(found, key=lambda partitions: sum(each.offset for each in partitions))
    if furthest:
        with closing(new_group_consumer(connection, group)) as consumer, suppress(KafkaException):
            # Refused if another instance is active already: it has done the same.
            consumer.commit(offsets=furthest, asynchronous=False)


def reached(connection: Connection, group: str, partitions: list[TopicPartition]) -> list[TopicPartition]:
    with closing(new_group_consumer(connection, group)) as consumer:
        return reached_by(consumer, group, partitions)


def reached_by(consumer: Consumer, group: str, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """As `reached`, with an existing consumer."""
    with kafka_errors(f"group {group}"):
        return [each for each in consumer.committed(partitions, timeout=_DEADLINE_S) if each.offset >= 0]

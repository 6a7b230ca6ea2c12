"""What consumer groups have committed, and where they go on."""

from contextlib import closing, suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from enrich.delivery.positions import Committed
from enrich.kafka import Connection, Topics, kafka_errors, new_group_consumer
from sync_service.writeback.plan import WritebackPlan

_DEADLINE_S = 10.0


def committed_of(consumer: Consumer, topics: Topics, topic: str) -> list[Committed]:
    """What the group of the consumer has committed, as far as it was of ours.

    The admin client's way of asking ends the process while a group's coordinator moves (librdkafka 2.16).
    """
    places = [TopicPartition(topic, partition) for partition in topics.partitions(topic)]
    with kafka_errors(f"topic {topic}"):
        found = consumer.committed(places, timeout=_DEADLINE_S)
    known = (Committed.from_text(place.metadata) for place in found if place.offset >= 0)
    return [one for one in known if one is not None]


def adopt(plan: WritebackPlan, connection: Connection, topics: Topics, topic: str) -> None:
    """A group of a retry topic that has committed nothing goes on where that of an earlier release had come to."""
    if not any(topics.end_offsets(topic).values()):
        return
    places = [TopicPartition(topic, partition) for partition in topics.partitions(topic)]
    group = plan.group_of(topic)
    if reached(connection, group, places):
        return
    found = [reached(connection, before, places) for before in plan.groups_before()]
    furthest = max(found, key=lambda places: sum(place.offset for place in places))
    if furthest:
        with closing(new_group_consumer(connection, group)) as consumer, suppress(KafkaException):
            # Refused where another instance is at work already: it has done the same.
            consumer.commit(offsets=furthest, asynchronous=False)


def reached(connection: Connection, group: str, places: list[TopicPartition]) -> list[TopicPartition]:
    with closing(new_group_consumer(connection, group)) as consumer:
        return reached_by(consumer, group, places)


def reached_by(consumer: Consumer, group: str, places: list[TopicPartition]) -> list[TopicPartition]:
    """As `reached`, by a consumer that is there already."""
    with kafka_errors(f"group {group}"):
        return [place for place in consumer.committed(places, timeout=_DEADLINE_S) if place.offset >= 0]

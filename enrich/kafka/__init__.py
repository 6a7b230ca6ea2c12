"""Kafka clients with common settings, configuration for librdkafka and Java, and Kafka errors as errors of our tree.

Start at `clients`; `writing` has the producers. `DeliveringProducer` cannot lose a record silently, `Topics` creates
and describes topics, `read_to_end` reads what a topic holds now. `trouble_with` finds out why brokers are unreachable.
"""

from enrich.kafka.clients.errors import kafka_errors
from enrich.kafka.clients.making import (
    Admin,
    Connection,
    new_admin_client,
    new_assigned_consumer,
    new_group_consumer,
    new_producer,
    new_store_consumer,
)
from enrich.kafka.clients.reaching import trouble_with
from enrich.kafka.clients.settings import java_properties, librdkafka_settings, masked, spark_options
from enrich.kafka.reading import read_to_end, read_topic
from enrich.kafka.topic_settings import TopicSettings
from enrich.kafka.topics import COMPACTED, TopicEnds, Topics
from enrich.kafka.writing.delivering import DeliveringProducer

__all__ = [
    "COMPACTED",
    "Admin",
    "Connection",
    "DeliveringProducer",
    "TopicEnds",
    "TopicSettings",
    "Topics",
    "java_properties",
    "kafka_errors",
    "librdkafka_settings",
    "masked",
    "new_admin_client",
    "new_assigned_consumer",
    "new_group_consumer",
    "new_producer",
    "new_store_consumer",
    "read_to_end",
    "read_topic",
    "spark_options",
    "trouble_with",
]

"""Kafka for the rooms above: clients with one set of habits, settings in both dialects, errors of our tree.

Start at `clients`. `DeliveringProducer` cannot lose a record quietly, `Topics` makes and measures topics,
`read_to_end` reads what a topic holds now. `trouble_with` says why the brokers cannot be reached.
"""

from enrich.kafka.clients import (
    Admin,
    Connection,
    new_admin_client,
    new_group_consumer,
    new_producer,
    new_store_consumer,
)
from enrich.kafka.delivering import DeliveringProducer
from enrich.kafka.errors import kafka_errors
from enrich.kafka.reaching import trouble_with
from enrich.kafka.reading import read_to_end
from enrich.kafka.settings import java_properties, librdkafka_settings, masked, spark_options
from enrich.kafka.topic_settings import TopicSettings
from enrich.kafka.topics import COMPACTED, TopicEnds, Topics

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
    "new_group_consumer",
    "new_producer",
    "new_store_consumer",
    "read_to_end",
    "spark_options",
    "trouble_with",
]

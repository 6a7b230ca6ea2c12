"""What time it is for the brokers: a record that they get says when it came."""

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message

from enrich.admin.cluster import Cluster
from enrich.admin.rights import needs
from enrich.base.errors import Unreachable
from enrich.kafka import new_producer
from enrich.kafka.clients.ending import discard
from enrich.kafka.clients.errors import kafka_errors, mapped


def brokers_ms(cluster: Cluster, topic: str, key: bytes, value: bytes | None = None) -> int | None:
    """Writes a record without a meaning. None: the topic's records keep the time of who wrote them. Raises ConfigError
    if this user may not write, or there is no such topic, and Unreachable at the deadline."""
    told: list[tuple[KafkaError | None, Message]] = []
    producer = new_producer(cluster.connection)
    try:
        with needs("WRITE", f"topic {topic}"), kafka_errors(f"topic {topic}"):
            producer.produce(topic, value, key, on_delivery=lambda *report: told.append(report))
            producer.flush(cluster.deadline_s)
            if told and told[0][0] is not None:
                raise mapped(told[0][0], f"topic {topic}")
    finally:
        discard(producer)
    if not told:
        raise Unreachable(
            f"no answer within {cluster.deadline_s:g} s", where=f"topic {topic}", next_step="check the brokers"
        )
    kind, at_ms = told[0][1].timestamp()
    return int(at_ms) if kind == TIMESTAMP_LOG_APPEND_TIME else None

"""Checks a stage's topics before it starts: they exist, and this user may use them; and how large records may be."""

from dataclasses import replace

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.kafka import Connection, Topics, new_admin_client
from enrich.kafka.clients.errors import kafka_errors
from enrich.stage.plan.plan import Limits

_PATIENCE_S = 30
_LARGEST_REQUEST = 1_048_576
"""Default of the Java producer's `max.request.size`."""


def checked_topics(pipeline: Pipeline, stage: str, connection: Connection) -> tuple[str, list[int], Limits]:
    """Id and partitions of the source, and the largest records of the other topics. Raises ConfigError, naming the
    topic."""
    section = pipeline.stages[stage]
    admin = new_admin_client(connection)
    topics = Topics(admin, deadline_s=_PATIENCE_S)
    topic_id, partitions = topics.identity(section.source.topic)
    _require(admin, section.source.topic, AclOperation.READ, f"stages.{stage}.source")
    at = f"stages.{stage}.{'sink' if section.sink else 'routes'}"
    for topic in section.outputs:
        _require(admin, topic, AclOperation.WRITE, at)
    request = int(pipeline.kafka.client.given().get("max.request.size", _LARGEST_REQUEST))
    limits = Limits(outputs={topic: min(request, _largest(topics, topic)) for topic in section.outputs})
    if section.dlq is not None:
        _require(admin, section.dlq, AclOperation.WRITE, f"stages.{stage}.dlq")
        limits = replace(limits, dlq=min(request, _largest(topics, section.dlq)))
    if section.writeback is not None:
        _require(admin, section.writeback.topic, AclOperation.WRITE, f"stages.{stage}.writeback")
        limits = replace(limits, writeback=min(request, _largest(topics, section.writeback.topic)))
    return topic_id, partitions, limits


def _require(admin: AdminClient, topic: str, operation: AclOperation, where: str) -> None:
    with kafka_errors(f"topic {topic}"):
        (future,) = admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=_PATIENCE_S
        ).values()
        allowed = future.result(timeout=_PATIENCE_S + 5).authorized_operations
    # None: the broker does not say. A missing right then shows with the first record.
    if allowed and operation not in allowed and AclOperation.ALL not in allowed:
        raise ConfigError(
            f"this user may not {operation.name.lower()} the topic {topic}",
            where=where,
            next_step=f"grant {operation.name} on it",
        )


def _largest(topics: Topics, topic: str) -> int:
    return int(topics.settings(topic).get("max.message.bytes", _LARGEST_REQUEST))

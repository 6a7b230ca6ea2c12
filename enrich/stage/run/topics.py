"""Checks a stage's topics before it starts: they exist, and this user may use them; and which records they take."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from enrich.base.errors import ConfigError, EnrichError, Retryable
from enrich.config import Pipeline, Source, Stage
from enrich.kafka import Connection, Topics, new_admin_client
from enrich.kafka.clients.errors import kafka_errors
from enrich.kafka.releases import warn_if_fallen
from enrich.kafka.topic_settings import is_compacted
from enrich.stage.plan.limits import Limits
from enrich.tally.writing import PARTITIONS, TOPIC_SETTINGS

_log = logging.getLogger(__name__)

_PATIENCE_S = 30
_LARGEST_REQUEST = 1_048_576
"""Default of the Java producer's `max.request.size`."""


@dataclass(frozen=True)
class CheckedTopics:
    """What a stage finds at its start."""

    ids: Mapping[str, str]
    """Of the topics of events."""
    partitions: Mapping[str, list[int]]
    """Of the same."""
    limits: Limits
    """Of the other topics."""


def checked_topics(pipeline: Pipeline, stage: str, connection: Connection) -> CheckedTopics:
    """Raises ConfigError, naming the topic."""
    section = pipeline.stages[stage]
    admin = new_admin_client(connection)
    topics = Topics(admin, deadline_s=_PATIENCE_S)
    sources = _sources(topics, section.source, f"stages.{stage}.source")
    for topic in sources:
        _require(admin, topic, AclOperation.READ, f"stages.{stage}.source")
    at = f"stages.{stage}.{'sink' if section.sink else 'routes'}"
    for topic in section.outputs:
        _require(admin, topic, AclOperation.WRITE, at)
    request = int(pipeline.kafka.client.given().get("max.request.size", _LARGEST_REQUEST))
    settings = {topic: topics.settings(topic) for topic in section.outputs}
    limits = Limits(
        outputs={topic: min(request, _largest(each)) for topic, each in settings.items()},
        compacted=frozenset(topic for topic, each in settings.items() if is_compacted(each)),
    )
    if section.dlq is not None:
        _require(admin, section.dlq, AclOperation.WRITE, f"stages.{stage}.dlq")
        limits = replace(limits, dlq=min(request, _largest(topics.settings(section.dlq))))
    if section.writeback is not None:
        _require(admin, section.writeback.topic, AclOperation.WRITE, f"stages.{stage}.writeback")
        limits = replace(limits, writeback=min(request, _largest(topics.settings(section.writeback.topic))))
    if pipeline.tallies_topic is not None:
        topics.ensure(pipeline.tallies_topic, partitions=PARTITIONS, config=TOPIC_SETTINGS)
        _require(admin, pipeline.tallies_topic, AclOperation.WRITE, f"stages.{stage}")
    ids = {topic: topic_id for topic, (topic_id, _) in sources.items()}
    return CheckedTopics(ids, {topic: partitions for topic, (_, partitions) in sources.items()}, limits)


def require_allowed(pipeline: Pipeline, stage: str, connection: Connection) -> None:
    """The same once more, of a stage that has failed: it names the topic and the right that was taken meanwhile."""
    with suppress(Retryable):
        checked_topics(pipeline, stage, connection)


def written_topics(section: Stage) -> list[str]:
    """All that a stage writes to but the tallies."""
    writeback = None if section.writeback is None else section.writeback.topic
    return [*section.outputs, *(topic for topic in (section.dlq, writeback) if topic is not None)]


def warn_of_higher_release(pipeline: Pipeline, stage: str, topics: Topics, connection: Connection) -> None:
    """Of all topics that rows may come from."""
    section = pipeline.stages[stage]
    names = [*section.outputs, *([] if section.writeback is None else [section.writeback.topic])]
    warn_if_fallen(_log, pipeline.release, connection, topics, names, stage=stage)


def _sources(topics: Topics, source: Source, where: str) -> Mapping[str, tuple[str, list[int]]]:
    """Id and partitions of each topic of events."""
    names = source.all_topics or [name for name in topics.names("") if source.reads(name)]
    if not names:
        raise ConfigError(
            f"there is no topic of the pattern {source.topic_pattern} that this user may see",
            where=f"{where}.topic_pattern",
            next_step="make a topic, correct the pattern, or grant DESCRIBE",
        )
    found = {}
    for name, each in topics.identities(names).items():
        if isinstance(each, EnrichError):
            raise each
        found[name] = each
    return found


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


def _largest(settings: Mapping[str, str]) -> int:
    return int(settings.get("max.message.bytes", _LARGEST_REQUEST))

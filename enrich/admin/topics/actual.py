"""The topics as they are on the brokers: partitions, replicas, settings, rights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin._config import ConfigResource

from enrich.admin.cluster import Cluster
from enrich.admin.reading import batches_of
from enrich.admin.rights import needs
from enrich.admin.topics.uses import Right
from enrich.base.errors import ConfigError, EnrichError
from enrich.config import Pipeline
from enrich.config.sections.sync.sources import tables_topic, topic_of_table
from enrich.kafka.clients.errors import kafka_errors
from enrich.kafka.records import key_of


@dataclass(frozen=True)
class Partition:
    number: int
    leader: int | None
    replicas: int
    in_sync: int


@dataclass(frozen=True)
class Actual:
    """One topic at one moment."""

    name: str
    topic_id: str
    partitions: tuple[Partition, ...]
    rights: frozenset[Right] | None
    """What this user may do; None if the brokers have no authorizer or do not say."""
    settings: Mapping[str, str]
    """The effective settings; empty if this user may not read them."""
    own_settings: frozenset[str] = frozenset()
    """Names of the settings that were set for this topic and are not the brokers' defaults."""
    settings_error: EnrichError | None = None

    @property
    def replication(self) -> int:
        return min((partition.replicas for partition in self.partitions), default=0)


def matching_topics(pipeline: Pipeline, cluster: Cluster) -> Collection[str]:
    """The existing topics that match the pattern of a stage's source. Asks for them only if there is a pattern."""
    sources = [stage.source for stage in pipeline.stages.values() if stage.source.topic_pattern is not None]
    return [name for name in cluster.topics.names("") if any(each.reads(name) for each in sources)] if sources else []


def topics_of_tables(pipeline: Pipeline, cluster: Cluster) -> Mapping[str, Collection[str]]:
    """By source with `tables`, the existing topics of those that it has found. It keeps their names in a topic."""
    found: dict[str, Collection[str]] = {}
    existing: set[str] = set()
    for name, origin in ({} if pipeline.sync is None else pipeline.sync.sources).items():
        kept = tables_topic(pipeline.name, name)
        if not origin.has_many_tables or not cluster.topics.exists(kept):
            continue
        tables = (key_of(message) or b"" for batch in batches_of(cluster, kept) for message in batch)
        pairs = dict.fromkeys(table.decode(errors="replace").partition(".") for table in tables)
        topics = (topic_of_table(origin.topic, schema, table) for schema, _, table in pairs)
        existing = existing or {*cluster.topics.names("")}  # once, and not for a pipeline without such a source
        found[name] = [topic for topic in topics if topic in existing]
    return found


def actual_topics(cluster: Cluster, names: Collection[str], hidden: set[str] | None = None) -> dict[str, Actual]:
    """The topics that exist. Those that this user may not even describe are added to `hidden`; without it the first of
    them raises ConfigError."""
    if not names:
        return {}
    with kafka_errors():
        existing = set(cluster.admin.list_topics(timeout=cluster.deadline_s).topics)
        futures = cluster.admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=cluster.deadline_s
        )
    described = {}
    for name, future in futures.items():
        try:
            with needs("DESCRIBE", f"topic {name}"):
                described[name] = cluster.ask({name: future}, f"topic {name}")
        except ConfigError as error:
            # Brokers answer differently for a topic that does not exist and for one that we may not see.
            may_see = not isinstance(error.__cause__, ConfigError)
            if name not in existing and may_see:
                continue
            if hidden is None or may_see:
                raise
            hidden.add(name)
    settings = _settings(cluster, described)
    return {name: _actual(name, description, settings[name]) for name, description in described.items()}


def _settings(cluster: Cluster, names: Collection[str]) -> Mapping[str, Mapping[str, Any] | EnrichError]:
    """Of each topic its settings, or why they cannot be read."""
    found: dict[str, Mapping[str, Any] | EnrichError] = {}
    if not names:
        return found
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    with kafka_errors():
        futures = cluster.admin.describe_configs(resources, request_timeout=cluster.deadline_s)
    for resource, future in futures.items():
        try:
            found[resource.name] = cluster.ask({resource: future}, f"topic {resource.name}")
        except ConfigError as error:
            found[resource.name] = error
    return found


def largest_by_default(cluster: Cluster) -> int | None:
    """The largest record of a topic that has no setting of its own, in bytes; None if the brokers do not tell this user
    their settings."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(cluster.description.nodes[0].id))
    with kafka_errors():
        futures = cluster.admin.describe_configs([resource], request_timeout=cluster.deadline_s)
    try:
        entry = cluster.ask(futures, "the brokers' settings").get("message.max.bytes")
    except ConfigError:
        return None
    return None if entry is None or entry.value is None else int(entry.value)


def _actual(name: str, description: Any, entries: Mapping[str, Any] | EnrichError) -> Actual:
    partitions = tuple(
        Partition(part.id, None if part.leader is None else part.leader.id, len(part.replicas), len(part.isr))
        for part in description.partitions
    )
    operations = description.authorized_operations
    known = {right.value: right for right in Right}
    rights = None if not operations else frozenset(known[o.name] for o in operations if o.name in known)
    of_topic = name, str(description.topic_id), partitions, rights
    if isinstance(entries, EnrichError):
        return Actual(*of_topic, {}, frozenset(), entries)
    settings = {entry.name: entry.value for entry in entries.values() if entry.value is not None}
    own = frozenset(entry.name for entry in entries.values() if not entry.is_default and _is_of_topic(entry))
    return Actual(*of_topic, settings, own)


def _is_of_topic(entry: Any) -> bool:
    return int(getattr(entry.source, "value", entry.source)) == 1  # DYNAMIC_TOPIC_CONFIG

"""Makes routes that follow a database's log from the configuration. Opens no connection."""

from collections.abc import Callable
from functools import partial

from enrich.admin.topics.wanted import DEFAULT_PARTITIONS, wanted_rows
from enrich.base.errors import ConfigError
from enrich.codecs.avro.schemas.registry import Registry, access_of
from enrich.codecs.encoders import encoder_for
from enrich.codecs.json.encoding import JsonEncoder
from enrich.config import Pipeline, PostgresOrigin, SyncSource
from enrich.config.sections.sync.sources import slot_name, topic_of_table
from enrich.config.types.encoding import Format
from enrich.kafka import COMPACTED, Topics
from stores.external.postgres.log.catalog import Catalog
from stores.external.postgres.log.slots import Slots
from sync_service.sources.logged.encoders import Alike, Encoders, Registered
from sync_service.sources.logged.keeping import Beside, InTopic
from sync_service.sources.logged.many import ManyTables
from sync_service.sources.logged.route import LogFollowed, LogRoute
from sync_service.sources.logged.tables import OneTable, TableNamed, Tables
from sync_service.sources.route import Connections, SourceWork

_LOCK_S, _LOCK_OF_MANY_S = 10.0, 1.0


def log_route(
    pipeline: Pipeline,
    name: str,
    source: SyncSource,
    postgres: PostgresOrigin,
    work: SourceWork,
    connections: Connections,
) -> LogRoute:
    make = _one if postgres.tables is None else _many
    slot = postgres.slot or slot_name(pipeline.name, name)
    return LogRoute(work, connections, make(pipeline, source, postgres, work, connections, slot))


def _one(
    pipeline: Pipeline,
    source: SyncSource,
    postgres: PostgresOrigin,
    work: SourceWork,
    connections: Connections,
    slot: str,
) -> LogFollowed:
    named = TableNamed(postgres.table or "", postgres.key or (), postgres.columns)

    def tables(slots: Slots, topics: Topics) -> Tables:  # noqa: ARG001 - the topic is made by people
        return OneTable(named, work.topic, slots, work.directory)

    return LogFollowed(
        dsn=postgres.dsn.get_secret_value(),
        slot=slot,
        encoders=lambda: Alike(encoder_for(source, pipeline.kafka)),
        tables=tables,
        keeping=lambda _: Beside(connections.consumer, f"{work.identity}.log", work.topic),
        prepare=lambda _: None,
        lock_s=_LOCK_S,
    )


def _many(
    pipeline: Pipeline,
    source: SyncSource,
    postgres: PostgresOrigin,
    work: SourceWork,
    connections: Connections,
    slot: str,
) -> LogFollowed:
    patterns = postgres.tables or ()

    def tables(slots: Slots, topics: Topics) -> Tables:
        make_topic = partial(_make_topic, pipeline, topics, work.name)
        topic_of = partial(topic_of_table, source.topic)
        return ManyTables(Catalog(slots, patterns), slots, topics, topic_of, make_topic, work.directory)

    return LogFollowed(
        dsn=postgres.dsn.get_secret_value(),
        slot=slot,
        encoders=_encoders(pipeline, source),
        tables=tables,
        keeping=lambda topics: InTopic(connections.consumer, f"{work.identity}.log", work.topic, topics),
        prepare=lambda topics: _prepare(topics, work.topic),
        lock_s=_LOCK_OF_MANY_S,
    )


def _encoders(pipeline: Pipeline, source: SyncSource) -> Callable[[], Encoders]:
    if source.format is Format.json:
        return lambda: Alike(JsonEncoder())
    registry = pipeline.kafka.registry
    if registry is None:
        raise ConfigError("avro needs a registry", next_step="set kafka.registry.url")
    return lambda: Registered(Registry(access_of(registry)))


def _prepare(topics: Topics, topic: str) -> None:
    topics.ensure(topic, partitions=1, config=COMPACTED)


def _make_topic(pipeline: Pipeline, topics: Topics, source: str, topic: str) -> None:
    """As `enrich topics apply` would make it."""
    if topics.exists(topic):
        return
    wanted = wanted_rows(pipeline, topic, f"source route {source}")
    wishes = wanted.wishes
    topics.create(
        topic,
        partitions=wishes.partitions or DEFAULT_PARTITIONS,
        replication=wishes.replication or -1,
        config=wanted.settings,
    )

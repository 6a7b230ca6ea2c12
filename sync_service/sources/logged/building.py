"""Makes routes that follow a database's log from the configuration. Opens no connection."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from enrich.admin.topics.wanted import DEFAULT_PARTITIONS, wanted_rows
from enrich.base.errors import ConfigError
from enrich.codecs.avro.schemas.registry import Registry, access_of
from enrich.codecs.encoders import encoder_for
from enrich.codecs.json.encoding import JsonEncoder
from enrich.config import Pipeline, PostgresOrigin, SyncSource
from enrich.config.sections.own_topics import kept_topics, waiting_topics
from enrich.config.sections.sync.sources import slot_name, topic_of_table
from enrich.config.types.encoding import Format
from enrich.kafka import COMPACTED, Topics
from enrich.kafka.writing.room import LARGEST_MESSAGE, sized_for
from stores.external.postgres.log.catalog import Catalog
from stores.external.postgres.log.slots import Slots
from sync_service.sources.logged.encoders import Alike, Encoders, Registered
from sync_service.sources.logged.followed.many import ManyTables
from sync_service.sources.logged.followed.tables import OneTable, TableNamed, Tables
from sync_service.sources.logged.keeping import Beside, InTopic
from sync_service.sources.logged.route import LogFollowed, LogRoute
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
    followed = _Followed(pipeline, source, postgres, work, connections, postgres.slot or slot_name(pipeline.name, name))
    return LogRoute(work, connections, followed.one() if postgres.tables is None else followed.many())


@dataclass(frozen=True)
class _Followed:
    """What a source follows, by its configuration."""

    pipeline: Pipeline
    source: SyncSource
    postgres: PostgresOrigin
    work: SourceWork
    connections: Connections
    slot: str

    def one(self) -> LogFollowed:
        work, postgres = self.work, self.postgres
        named = TableNamed(postgres.table or "", postgres.key or (), postgres.columns)
        return LogFollowed(
            dsn=postgres.dsn.get_secret_value(),
            slot=self.slot,
            encoders=lambda: Alike(encoder_for(self.source, self.pipeline.kafka)),
            tables=lambda slots, topics: OneTable(named, work.topic, slots, topics, work.directory),
            producing=lambda topics: sized_for([work.topic], topics, self.connections.producer),
            keeping=lambda _: Beside(self.connections.consumer, f"{work.identity}.log", work.topic),
            prepare=lambda _: None,  # the topic is made by people
            lock_s=_LOCK_S,
        )

    def many(self) -> LogFollowed:
        work, patterns = self.work, self.postgres.tables or ()
        topic_of = partial(free_topic, self.pipeline, self.work.name)

        def tables(slots: Slots, topics: Topics) -> Tables:
            make_topic = partial(_make_topic, self.pipeline, topics, work.name)
            return ManyTables(Catalog(slots, patterns), slots, topics, topic_of, make_topic, work.directory)

        return LogFollowed(
            dsn=self.postgres.dsn.get_secret_value(),
            slot=self.slot,
            encoders=_encoders(self.pipeline, self.source),
            tables=tables,
            # Topics that come later may take larger records.
            producing=lambda _: {"message.max.bytes": LARGEST_MESSAGE, **self.connections.producer},
            keeping=lambda topics: InTopic(self.connections.consumer, f"{work.identity}.log", work.topic, topics),
            prepare=lambda topics: _prepare(topics, work.topic),
            lock_s=_LOCK_OF_MANY_S,
        )


def free_topic(pipeline: Pipeline, source: str, schema: str, table: str) -> str | None:
    """Of a table of a source with many. None if its name makes none, or one that the pipeline has for something else:
    the source would delete what it does not know."""
    sources = {} if pipeline.sync is None else pipeline.sync.sources
    topic = topic_of_table(sources[source].topic, schema, table)
    others = {origin.topic for name, origin in sources.items() if name != source}
    others |= {own for own, *_ in (*kept_topics(pipeline), *waiting_topics(pipeline))}
    return None if topic in others else topic


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
    wanted = wanted_rows(pipeline, topic, f"source route {source}")
    wishes = wanted.wishes
    topics.ensure(
        topic,
        partitions=wishes.partitions or DEFAULT_PARTITIONS,
        replication=wishes.replication or -1,
        config=wanted.settings,
    )

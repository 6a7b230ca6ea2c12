"""Rules inside the section `sync`, and between it and the rest of the pipeline."""

from collections.abc import Iterator
from datetime import timedelta

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import hint
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.sync.section import Sync
from enrich.config.sections.sync.source_rules import source_rules
from enrich.config.sections.sync.target_rules import target_rules
from enrich.config.sections.sync.targets import Delete, Output, PostgresTarget, RedisTarget
from enrich.config.sections.sync.writeback import SyncWriteback, retry_topics
from enrich.config.sections.tables.rules import encoding_rules
from enrich.config.types.column_types import Simple
from enrich.config.types.quantities import duration_text

# Kafka drops a group member that does not poll for five minutes (max.poll.interval.ms).
_LONGEST_WRITE = timedelta(minutes=2)
_ORDERED = ("tinyint", "smallint", "int", "bigint", "date", "timestamp")


def sync_rules(pipeline: Pipeline, sync: Sync, here: Path) -> Iterator[Finding]:
    yield from source_rules(pipeline.name, sync.sources, (*here, "sources"), pipeline.kafka)
    yield from target_rules(sync.writeback, (*here, "writeback"))
    tables = {table.topic: name for name, table in pipeline.tables.items() if table.topic is not None}
    for name, route in sync.writeback.items():
        at = (*here, "writeback", name)
        yield from encoding_rules(route, at, pipeline.kafka)
        yield from _writeback_rules(route, at, pipeline.release)
        if route.dlq in tables:
            message = f"{route.dlq} is the topic of the table {tables[route.dlq]}: dead letters would become its rows"
            yield Finding((*at, "dlq"), message, about=(("tables", tables[route.dlq], "topic"),))
        for other, writing in sync.writeback.items():
            retried = {topic for topic, _ in retry_topics(pipeline.name, other, writing.retries)}
            for key in ("topic", "dlq"):
                if getattr(route, key) in retried:
                    message = (
                        f"{getattr(route, key)} is a retry topic of the route {other}: records would go round in it"
                    )
                    yield Finding((*at, key), message, about=((*here, "writeback", other, "retries"),))


def _writeback_rules(route: SyncWriteback, here: Path, release: int) -> Iterator[Finding]:
    names, about = route.columns.names, ((*here, "columns"),)
    if route.dlq == route.topic:
        message = f"{route.dlq} is also the topic of the rows: the route would read what it writes"
        yield Finding((*here, "dlq"), message, about=((*here, "topic"),))
    if any(not pause for pause in route.retries):
        yield Finding((*here, "retries"), "pauses must be more than 0")
    if route.version is not None:
        column = route.columns.find(route.version)
        if column is None:
            message = f"{route.version} is to be the version and is none of the columns"
            message += f"{hint(route.version, names, 'columns')}; add it to the route's columns, with its type"
            yield Finding((*here, "version"), message, about=about)
        elif not (isinstance(column.type, Simple) and column.type.name in _ORDERED):
            message = f"{route.version} is {column.type}: versions are whole numbers, dates or timestamps"
            yield Finding((*here, "version"), message, about=about)
    redis, postgres, at = route.to.redis, route.to.postgres, (*here, "to")
    if (redis is None) == (postgres is None):
        yield Finding(at, "give redis or postgres, one of them", about=((*at, "redis"), (*at, "postgres")))
    elif redis is not None:
        yield from _output_rules(redis, (*at, "redis"))
        yield from _redis_rules(redis, names, here)
    elif postgres is not None:
        yield from _output_rules(postgres, (*at, "postgres"))
        yield from _postgres_rules(postgres, names, here, release)


def _output_rules(output: Output, at: Path) -> Iterator[Finding]:
    if output.timeout is not None and not timedelta(seconds=1) <= output.timeout <= _LONGEST_WRITE:
        message = f"must be between 1s and {duration_text(_LONGEST_WRITE)}: meanwhile the route does nothing else"
        yield Finding((*at, "timeout"), message)


def _redis_rules(redis: RedisTarget, names: tuple[str, ...], here: Path) -> Iterator[Finding]:
    at = (*here, "to", "redis")
    if redis.key.count("{key}") != 1:
        yield Finding((*at, "key"), "needs {key} once, for the record's key: user:{key}")
    if redis.ttl is not None and not redis.ttl:
        yield Finding((*at, "ttl"), "must be more than 0; leave it out for rows that stay")
    if redis.cluster and redis.sentinel is not None:
        yield Finding((*at, "sentinel"), "give cluster or sentinel, not both", about=((*at, "cluster"),))
    for name in ("_version", "_release", "_deleted"):
        if name in names:
            message = f"the column {name} has the name of what the sync service keeps beside the columns"
            yield Finding((*here, "columns"), message)


def _postgres_rules(postgres: PostgresTarget, names: tuple[str, ...], here: Path, release: int) -> Iterator[Finding]:
    at = (*here, "to", "postgres")
    columns = postgres.columns if postgres.columns is not None else {name: name for name in names}
    for column, source in columns.items():
        if source not in names:
            message = f"there is no column {source}{hint(source, names, 'columns')}"
            yield Finding((*at, "columns", column), message, about=((*here, "columns"),))
    own = {"version_column": postgres.version_column}
    release_column = postgres.release_column_of(release)
    if postgres.release_column is None and release_column in (*names, *postgres.key, *columns):
        message = f"needs release_column: the pipeline has a release, and {release_column} is a column of its own here"
        yield Finding(at, message, about=(("release",),))
    elif release_column is not None:
        own["release_column"] = release_column
    if postgres.delete == Delete.soft:
        own["deleted_column"] = postgres.deleted_column
    elif "deleted_column" in postgres.model_fields_set:
        yield Finding((*at, "deleted_column"), "only with delete: soft", about=((*at, "delete"),))
    for key, column in own.items():
        if column in postgres.key:
            yield Finding((*at, key), f"{column} is a column of the key", about=((*at, "key"),))
        elif column in columns and postgres.columns is not None:
            message = f"{column} is also one of the columns that the rows fill"
            yield Finding((*at, key), message, about=((*at, "columns"),))
    for key, column in own.items():
        for other in own:
            if other == key:
                break
            if own[other] == column:
                yield Finding((*at, key), f"is also the {other}", about=((*at, other),))

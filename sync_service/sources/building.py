"""Makes routes from the section `sync.sources`. Opens no connection."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.codecs.encoders import encoder_for
from enrich.config import (
    FileOrigin,
    Follow,
    HttpOrigin,
    Pipeline,
    PostgresOrigin,
    RedisOrigin,
    RedisType,
    Role,
    SyncSource,
)
from enrich.config.groups import source_group
from enrich.config.sections.sync.sources import tables_topic
from enrich.endpoints.pages import Next, PagesReader, Paging
from enrich.endpoints.pages.configured import request_of, shown
from enrich.kafka import Connection, librdkafka_settings
from stores.external.files.formats import FileFormat
from stores.external.files.reading import FileReader
from stores.external.postgres.reading import PostgresReader
from stores.external.redis.notifications import KeyNotifications
from stores.external.redis.reading import RedisReader
from sync_service.sources.logged.building import log_route
from sync_service.sources.logged.route import LogRoute
from sync_service.sources.polled.files import FileSource
from sync_service.sources.polled.http import HttpSource
from sync_service.sources.polled.postgres import PostgresSource, TableQuery
from sync_service.sources.polled.redis import RedisHints, RedisRows, RedisSource
from sync_service.sources.polled.source import Source
from sync_service.sources.route import Connections, SourceRoute, SourceWork

Stopping = Callable[[], bool]

_SILENCE, _SILENCE_MS = "max.poll.interval.ms", 300_000
"""After this Kafka gives the turn to another instance; and the client's default."""


def source_routes(pipeline: Pipeline) -> list[SourceRoute | LogRoute]:
    if pipeline.sync is None:
        return []
    return [_route(pipeline, name, source) for name, source in pipeline.sync.sources.items()]


def directory_of(pipeline: Pipeline, name: str) -> Path:
    """Where a source keeps what it knows of its topic. It can be deleted at any time."""
    return Path(pipeline.state_dir) / pipeline.name / "sync-sources" / name


def _route(pipeline: Pipeline, name: str, source: SyncSource) -> SourceRoute | LogRoute:
    directory = directory_of(pipeline, name)
    work = SourceWork(
        name=name,
        identity=source_group(pipeline.name, name),
        topic=tables_topic(pipeline.name, name) if source.has_many_tables else source.topic,
        directory=directory,
        interval_s=source.interval.total_seconds(),
        delete_guard=source.delete_guard,
        confirm=f"if these rows should be deleted: enrich sync confirm {name} -c FILE --yes",
        # Secrets are not in it, so that they may be renewed; and it is kept on disk, where an address may be one.
        origin=hashlib.sha256(source.from_.model_dump_json().encode()).hexdigest()[:16],
        release=pipeline.release,
    )
    roles = (Role.producer, Role.consumer, Role.common)
    producer, consumer, common = (librdkafka_settings(pipeline.kafka, role) for role in roles)
    connections = Connections(producer, _patient(consumer, source.from_.http), common)
    postgres = source.from_.postgres
    if postgres is not None and postgres.follow is Follow.log:
        return log_route(pipeline, name, source, postgres, work, connections)
    encoder = partial(encoder_for, source, pipeline.kafka)
    return SourceRoute(work, connections, encoder, partial(_source, source, directory))


def _patient(consumer: Connection, http: HttpOrigin | None) -> Connection:
    """Nothing is heard of a source while it waits for an answer: its turn may be silent for as long as two take, of
    which the first may be lost with a connection that was kept."""
    longest_ms = 0 if http is None else 2 * _milliseconds(http.timeout) + 5_000
    if longest_ms <= int(consumer.get(_SILENCE, _SILENCE_MS)):
        return consumer
    return {**consumer, _SILENCE: longest_ms}


def _source(source: SyncSource, directory: Path, stopping: Stopping) -> Source:
    origin = source.from_
    if origin.postgres is not None:
        return _postgres(origin.postgres, stopping)
    if origin.file is not None:
        return _file(origin.file, directory, stopping)
    if origin.http is not None:
        return _http(origin.http, stopping)
    if origin.redis is not None:
        return _redis(origin.redis, stopping)
    raise ConfigError("a source needs postgres, file, http or redis")


def _postgres(postgres: PostgresOrigin, stopping: Stopping) -> Source:
    query = TableQuery(
        table=postgres.table or "",
        key=postgres.key or (),
        columns=postgres.columns,
        cursor=postgres.cursor,
        overlap_ms=_milliseconds(postgres.overlap),
        keys_every_ms=_milliseconds(postgres.deletes_every),
        whole_every_ms=_milliseconds(postgres.whole_every),
    )
    return PostgresSource(PostgresReader(postgres.dsn.get_secret_value(), stopping=stopping), query)


def _file(file: FileOrigin, directory: Path, stopping: Stopping) -> Source:
    if file.kind is None:
        raise ConfigError("the path does not say which type of file it is")
    columns = None if file.columns is None else file.columns.arrow
    reader = FileReader(file.path, FileFormat(file.kind), columns, stopping=stopping)
    return FileSource(reader, file.key, directory / "work")


def _http(http: HttpOrigin, stopping: Stopping) -> Source:
    given = http.next or "none"
    following = Next.pointer if given.startswith("/") else Next(given)
    paging = Paging(http.rows, following, given if following is Next.pointer else "", http.parameter)
    url = http.url.get_secret_value()
    reader = PagesReader(url, paging, request_of(http), where=shown(http.url), stopping=stopping)
    return HttpSource(reader, http.key, http.columns.arrow)


def _redis(redis: RedisOrigin, stopping: Stopping) -> Source:
    where = str(redis.url)
    reader = RedisReader(redis.url.get_secret_value(), stopping=stopping, where=where)
    columns = None if redis.columns is None else redis.columns.arrow
    hashes = redis.as_ is RedisType.hash
    rows = RedisRows(redis.pattern, columns, hashes=hashes, where=where)
    if not redis.notifications:
        return RedisSource(reader, rows)
    events = "Kg" + ("h" if hashes else "$")
    told = KeyNotifications(redis.url.get_secret_value(), redis.pattern, events=events, where=where)
    return RedisSource(reader, rows, RedisHints(told, reader, rows))


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)

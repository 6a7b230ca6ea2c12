"""Rules inside a source, and between sources and the rest of the pipeline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import hint
from enrich.config.sections.kafka.section import KafkaSection
from enrich.config.sections.sync.sources import (
    TABLE_PARTS,
    FileOrigin,
    FileType,
    Follow,
    HttpOrigin,
    PostgresOrigin,
    RedisOrigin,
    RedisType,
    SyncSource,
    slot_name,
)
from enrich.config.sections.tables.rules import encoding_rules
from enrich.config.types.columns import Columns
from enrich.config.types.encoding import Format, Framing

_ONLY_WITH_CURSOR = ("overlap", "deletes_every", "whole_every")


def source_rules(
    pipeline: str, sources: Mapping[str, SyncSource], here: Path, kafka: KafkaSection
) -> Iterator[Finding]:
    writers: dict[str, str] = {}
    readers: dict[tuple[str, str], str] = {}
    for name, source in sources.items():
        at = (*here, name)
        other = writers.setdefault(source.topic, name)
        if other != name:
            message = f"{source.topic} is also the topic of the source {other}: each would delete the other's rows"
            yield Finding((*at, "topic"), message, about=((*here, other, "topic"),))
        postgres = source.from_.postgres
        if postgres is not None and postgres.follow is Follow.log:
            slot = postgres.slot or slot_name(pipeline, name)
            other = readers.setdefault((postgres.dsn.get_secret_value(), slot), name)
            if other != name:
                message = f"{slot} is also the slot of the source {other}: each would take the log away from the other"
                yield Finding((*at, "from", "postgres", "slot"), message, about=((*here, other, "from"),))
        yield from _encoding(source, at, kafka)
        if not source.interval:
            yield Finding((*at, "interval"), "must be more than 0")
        yield from _topic(source, at)
        given, origin = source.from_.given, (*at, "from")
        if len(given) != 1:
            about = tuple((*origin, kind) for kind in given)
            yield Finding(origin, "give postgres, file, http or redis, one of them", about=about)
            continue
        for kind, section in given.items():
            yield from _RULES[kind](section, (*origin, kind))


def _topic(source: SyncSource, here: Path) -> Iterator[Finding]:
    parts = [part for part in TABLE_PARTS if part in source.topic]
    if not source.has_many_tables:
        if parts:
            message = f"{parts[0]} needs `tables`: this source has one table"
            yield Finding((*here, "topic"), message, about=((*here, "from"),))
        return
    about = ((*here, "from", "postgres", "tables"),)
    if len(parts) < len(TABLE_PARTS):
        message = "with `tables` it needs {schema} and {table}: each table has a topic of its own"
        yield Finding((*here, "topic"), message, about=about)
    if source.schema_ is not None or source.file is not None:
        message = "with `tables` each table has its own schema, in the registry: leave schema and file out"
        yield Finding((*here, "schema"), message, about=about)


def _encoding(source: SyncSource, here: Path, kafka: KafkaSection) -> Iterator[Finding]:
    if source.format not in (Format.json, Format.avro):
        yield Finding((*here, "format"), f"a source writes json or avro, not {source.format}")
        return
    yield from encoding_rules(source, here, kafka)
    own = source.schema_ is not None or source.file is not None
    if source.format == Format.avro and own and source.framing == Framing.confluent:
        message = "with a registry the schema is the one that it has for <topic>-value: leave schema and file out"
        yield Finding((*here, "framing"), message, about=((*here, "schema"), (*here, "file")))


def _postgres(postgres: PostgresOrigin, here: Path) -> Iterator[Finding]:
    if postgres.follow is Follow.log and postgres.cursor is not None:
        yield Finding((*here, "cursor"), "only with follow: cursor", about=((*here, "follow"),))
    if postgres.follow is Follow.cursor and postgres.slot is not None:
        yield Finding((*here, "slot"), "only with follow: log", about=((*here, "follow"),))
    if (postgres.table is None) == (postgres.tables is None):
        about = () if postgres.table is None else ((*here, "tables"),)
        yield Finding((*here, "table"), "give `table`, or `tables` with `follow: log`", about=about)
    elif postgres.tables is not None:
        if postgres.follow is not Follow.log:
            yield Finding((*here, "tables"), "only with follow: log", about=((*here, "follow"),))
        for name in ("key", "columns"):
            if getattr(postgres, name) is not None:
                message = "not with `tables`: each has its primary key, and all its columns"
                yield Finding((*here, name), message, about=((*here, "tables"),))
        for pattern in postgres.tables:
            if "." not in pattern:
                yield Finding((*here, "tables"), f"{pattern} has no schema: write schema.table, such as app.*")
    elif postgres.key is None:
        yield Finding((*here, "key"), "a table needs `key`: the columns of its unique key", about=((*here, "table"),))
    for name in _ONLY_WITH_CURSOR:
        if postgres.cursor is None and name in postgres.model_fields_set:
            yield Finding((*here, name), "only with a cursor", about=((*here, "cursor"),))


def _http(http: HttpOrigin, here: Path) -> Iterator[Finding]:
    yield from _key_rules(http.key, http.columns, here)
    if urlsplit(http.url.get_secret_value()).username is not None:
        yield Finding((*here, "url"), "must not name a user: write `token`, or Authorization under `headers`")
    if http.parameter is not None and http.next in (None, "link"):
        yield Finding((*here, "parameter"), "only with next: page, offset or a JSON pointer", about=((*here, "next"),))
    if not timedelta(milliseconds=100) <= http.timeout <= timedelta(minutes=10):
        yield Finding((*here, "timeout"), "must be from 100ms to 10m")


def _redis(redis: RedisOrigin, here: Path) -> Iterator[Finding]:
    if redis.as_ is RedisType.string:
        if redis.columns is not None:
            message = "a string has one column, `value`: leave columns out"
            yield Finding((*here, "columns"), message, about=((*here, "as"),))
    elif redis.columns is None:
        yield Finding((*here, "columns"), f'{redis.as_} needs columns: "id bigint, name string"')


def _file(file: FileOrigin, here: Path) -> Iterator[Finding]:
    if file.kind is None:
        message = "the path does not say which type of file it is: csv, json or parquet"
        yield Finding((*here, "type"), message, about=((*here, "path"),))
    if file.columns is None:
        if file.kind == FileType.json:
            yield Finding((*here, "columns"), 'a json file needs columns: "id bigint, name string"')
        return
    yield from _key_rules(file.key, file.columns, here)


def _key_rules(key: Sequence[str], columns: Columns, here: Path) -> Iterator[Finding]:
    for name in key:
        if name not in columns.names:
            message = f"there is no column {name}{hint(name, columns.names, 'columns')}"
            yield Finding((*here, "key"), message, about=((*here, "columns"),))


_RULES: Mapping[str, Callable[[Any, Path], Iterator[Finding]]] = {
    "postgres": _postgres,
    "file": _file,
    "http": _http,
    "redis": _redis,
}

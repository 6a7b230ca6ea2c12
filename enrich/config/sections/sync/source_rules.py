"""Rules inside a source, and between sources and the rest of the pipeline."""

from collections.abc import Iterator, Mapping

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import hint
from enrich.config.sections.kafka.section import KafkaSection
from enrich.config.sections.sync.sources import FileOrigin, FileType, PostgresOrigin, SyncSource
from enrich.config.sections.tables.rules import encoding_rules
from enrich.config.types.encoding import Format, Framing

_ONLY_WITH_CURSOR = ("overlap", "deletes_every", "whole_every")


def source_rules(sources: Mapping[str, SyncSource], here: Path, kafka: KafkaSection) -> Iterator[Finding]:
    writers: dict[str, str] = {}
    for name, source in sources.items():
        at = (*here, name)
        other = writers.setdefault(source.topic, name)
        if other != name:
            message = f"{source.topic} is also the topic of the source {other}: each would delete the other's rows"
            yield Finding((*at, "topic"), message, about=((*here, other, "topic"),))
        yield from _encoding(source, at, kafka)
        if not source.interval:
            yield Finding((*at, "interval"), "must be more than 0")
        postgres, file = source.from_.postgres, source.from_.file
        origin = (*at, "from")
        if (postgres is None) == (file is None):
            about = ((*origin, "postgres"), (*origin, "file"))
            yield Finding(origin, "give postgres or file, one of them", about=about)
        elif postgres is not None:
            yield from _postgres(postgres, (*origin, "postgres"))
        elif file is not None:
            yield from _file(file, (*origin, "file"))


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
    for name in _ONLY_WITH_CURSOR:
        if postgres.cursor is None and name in postgres.model_fields_set:
            yield Finding((*here, name), "only with a cursor", about=((*here, "cursor"),))


def _file(file: FileOrigin, here: Path) -> Iterator[Finding]:
    if file.kind is None:
        message = "the path does not say which type of file it is: csv, json or parquet"
        yield Finding((*here, "type"), message, about=((*here, "path"),))
    if file.columns is None:
        if file.kind == FileType.json:
            yield Finding((*here, "columns"), 'a json file needs columns: "id bigint, name string"')
        return
    for name in file.key:
        if name not in file.columns.names:
            message = f"there is no column {name}{hint(name, file.columns.names, 'columns')}"
            yield Finding((*here, "key"), message, about=((*here, "columns"),))

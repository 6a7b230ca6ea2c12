"""Rules inside a table, and for the encoding of rows and events."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import listed
from enrich.config.sections.kafka.section import KafkaSection
from enrich.config.sections.tables.table import (
    FILE_ENDINGS,
    ONLY_ON_DEMAND,
    ONLY_WITH_HTTP,
    ONLY_WITH_LOADER,
    ONLY_WITH_TOPIC,
    Freshness,
    KeyKind,
    Loader,
    OnStale,
    Table,
)
from enrich.config.types.column_types import Simple
from enrich.config.types.encoding import Encoded, Format, Framing
from enrich.config.types.quantities import duration_text

_ONLY_WITH = {"pattern": ("redis",), "table": ("postgres",), "key": ("postgres", "file")}


def table_rules(table: Table, here: Path, kafka: KafkaSection) -> Iterator[Finding]:
    topic, loader = (*here, "topic"), (*here, "loader")
    if (table.topic is None) == (table.loader is None):
        wrong = "needs a topic or a loader" if table.topic is None else "has a topic and a loader: give one of them"
        yield Finding(here, f"the table {wrong}", about=(topic, loader))
    elif table.loader is None:
        for name in ONLY_WITH_LOADER:
            if getattr(table, name):
                yield Finding((*here, name), "only for tables with a loader", about=(loader,))
        yield from _freshness_rules(table.freshness, (*here, "freshness"))
    else:
        for name in ONLY_WITH_TOPIC:
            if name in table.model_fields_set and not (table.on_demand and name == "freshness"):
                yield Finding((*here, name), "only for tables with a topic", about=(topic,))
        yield from _loader_rules(table, table.loader, here)
    yield from _on_demand_rules(table, here)
    yield from _column_rules(table, here)
    yield from encoding_rules(table, here, kafka)


def encoding_rules(encoded: Encoded, here: Path, kafka: KafkaSection) -> Iterator[Finding]:
    if encoded.format != Format.avro:
        for name in ("file", "framing"):
            if getattr(encoded, name) is not None:
                yield Finding((*here, name), "only for format: avro", about=((*here, "format"),))
        return
    if encoded.schema_ is not None:
        if encoded.file is not None:
            yield Finding((*here, "file"), "give schema or file, not both", about=((*here, "schema"),))
        return
    inline = ((*here, "schema"), (*here, "file"))
    if encoded.file is None and encoded.framing == Framing.bare:
        message = "bare needs schema or file: nothing in a bare body says which schema wrote it"
        yield Finding((*here, "framing"), message, about=inline)
    if encoded.file is None and kafka.registry is None:
        message = "avro needs schema, file, or a registry: set kafka.registry.url"
        yield Finding((*here, "format"), message, about=(*inline, ("kafka", "registry")))


def _freshness_rules(freshness: Freshness, here: Path) -> Iterator[Finding]:
    for name in ("bound", "deadline"):
        if not getattr(freshness, name):
            yield Finding((*here, name), "must be more than 0: no answer is newer than now")
    if "then" in freshness.model_fields_set and freshness.on_stale != OnStale.wait:
        yield Finding((*here, "then"), "only with on_stale: wait", about=((*here, "on_stale"),))


def _loader_rules(table: Table, loader: Loader, here: Path) -> Iterator[Finding]:
    at = (*here, "loader")
    kinds = ("redis", "postgres", "file", "http")
    if len(loader.given) != 1:
        yield Finding(at, f"give one of {listed(kinds)}", about=tuple((*at, kind) for kind in kinds))
        return
    (kind,) = loader.given
    about = ((*at, kind),)
    for name, kinds_with in _ONLY_WITH.items():
        if getattr(loader, name) is not None and kind not in kinds_with:
            yield Finding((*at, name), f"only with {listed(kinds_with)}", about=about)
    for name in ("table", "key"):
        if kind in _ONLY_WITH[name] and getattr(loader, name) is None:
            yield Finding((*at, name), f"needed with {kind}", about=((*at, name),))
    for name in ONLY_WITH_HTTP:
        if name in loader.model_fields_set and kind != "http":
            yield Finding((*at, name), "only with http", about=about)
    if (kind == "http") != table.on_demand:
        wrong = "needs on_demand: true, or a source of the sync service that reads all rows"
        where, message = (at, wrong) if kind == "http" else ((*here, "on_demand"), f"needs http, not {kind}")
        yield Finding(where, message, about=(*about, (*here, "on_demand")))
    if loader.http is not None and not _has_key(loader.http.get_secret_value()):
        yield Finding((*at, "http"), "needs {key} once, in its path or its query: where the key of a row goes")
    if kind == "file" and loader.file_format is None:
        yield Finding((*at, "file"), f"expected a name that ends with {listed(FILE_ENDINGS)}")
    if kind != "redis" and table.format != Format.json:
        message = f"rows of {kind} have no encoding of their own: leave format out"
        yield Finding((*here, "format"), message, about=about)
    if table.refresh is not None and table.expire is not None:
        if not table.refresh:
            yield Finding((*here, "refresh"), "must be more than 0")
        elif table.expire <= table.refresh:
            message = f"must be more than refresh ({duration_text(table.refresh)})"
            yield Finding((*here, "expire"), message, about=((*here, "refresh"),))


def _has_key(url: str) -> bool:
    parts = urlsplit(url)
    return url.count("{key}") == 1 and "{key}" in parts.path + parts.query


def _on_demand_rules(table: Table, here: Path) -> Iterator[Finding]:
    on_demand = (*here, "on_demand")
    if not table.on_demand:
        for name in ONLY_ON_DEMAND:
            if name in table.model_fields_set:
                yield Finding((*here, name), "only with on_demand: true", about=(on_demand,))
        return
    for name in sorted(table.freshness.model_fields_set - {"deadline"}):
        message = "only for tables with a topic; rows on demand have refresh and expire"
        yield Finding((*here, "freshness", name), message, about=(on_demand,))
    if not table.freshness.deadline:
        yield Finding((*here, "freshness", "deadline"), "must be more than 0")
    if table.key == KeyKind.cidr:
        yield Finding((*here, "key"), "cidr needs the whole table: rows on demand are asked for by their key")
    if table.preload is not None and (table.preload.file is None) == (table.preload.topic is None):
        at = (*here, "preload")
        yield Finding(at, "give one of file and topic", about=((*at, "file"), (*at, "topic")))


def _column_rules(table: Table, here: Path) -> Iterator[Finding]:
    if table.format not in (Format.bytes, Format.string):
        return
    wanted = Simple("binary" if table.format == Format.bytes else "string")
    if [column.type for column in table.columns.columns] != [wanted]:
        message = f"format {table.format} has one column, of type {wanted}, such as value {wanted}"
        yield Finding((*here, "columns"), message, about=((*here, "format"),))


SHORTEST_REPLAY_HISTORY = timedelta(minutes=10)


def replayable(table: Table, here: Path) -> Iterator[tuple[Path, str]]:
    """Why a repeated batch could get other answers from the table, as (path, reason)."""
    if table.loader is not None:
        yield (*here, "loader"), "has a loader, whose rows have no offsets to return to"
        return
    if table.history < SHORTEST_REPLAY_HISTORY:
        least, now = duration_text(SHORTEST_REPLAY_HISTORY), duration_text(table.history)
        yield (*here, "history"), f"has a history of {now}, and a repeated batch may need {least}"
    freshness = table.freshness
    # The default is not meant: pinned look-ups do not age, so nothing is ever marked.
    if freshness.on_stale == OnStale.mark and "on_stale" in freshness.model_fields_set:
        why = "has on_stale: mark, and a repeat would mark other rows (use wait or fail)"
        yield (*here, "freshness", "on_stale"), why
    elif freshness.on_stale == OnStale.wait and freshness.then == "mark" and "then" in freshness.model_fields_set:
        yield (*here, "freshness", "then"), "has on_stale: wait with then: mark, and a repeat would mark other rows"

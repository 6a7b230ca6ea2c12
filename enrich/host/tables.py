"""The tables of a pipeline as the agent needs them: from where, and with which rows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from enrich.codecs import CachedSchemas, KnownSchemas, SchemaSource, decoder_for, schemas_of
from enrich.config import Compaction, Pipeline, Table
from stores.protocol import Decoder, KeyKind, TableSpec

_DECIDES_NOTHING = {"topic", "compaction", "history", "freshness", "access"}


@dataclass(frozen=True)
class TopicTable:
    """A table that mirrors a topic."""

    name: str
    topic: str
    spec: TableSpec
    must_be_compacted: bool
    definition: str = ""
    """A digest of all that decides which records of the topic become rows: see `_definition`."""
    at_once: Decoder | None = None
    """Decodes as the spec's does, and raises NotAskedYet where that one would wait for a server."""


@dataclass(frozen=True)
class LoaderTable:
    """A table that comes straight from an external source, read again at an interval."""

    name: str
    section: Table
    spec: TableSpec
    refresh_ms: int
    expire_ms: int


def all_tables(pipeline: Pipeline, schemas: SchemaSource | None = None) -> Mapping[str, TopicTable | LoaderTable]:
    """All tables of the pipeline. `schemas`: what to ask in place of the registry. Raises ConfigError for columns that
    a table's format cannot fill."""
    schemas = schemas or schemas_of(pipeline.kafka.registry)
    return {name: _table(name, table, schemas) for name, table in pipeline.tables.items()}


def topic_tables(pipeline: Pipeline) -> Mapping[str, TopicTable]:
    """Those that mirror a topic."""
    return {name: table for name, table in all_tables(pipeline).items() if isinstance(table, TopicTable)}


def _table(name: str, table: Table, schemas: SchemaSource | None) -> TopicTable | LoaderTable:
    history_ms = round(table.history.total_seconds() * 1000)
    spec = TableSpec(table.columns.arrow, decoder_for(table, schemas), history_ms, KeyKind(table.key.value))
    if table.topic is not None:
        must_be_compacted = table.compaction is Compaction.required
        at_once = decoder_for(table, KnownSchemas(schemas)) if isinstance(schemas, CachedSchemas) else None
        return TopicTable(name, table.topic, spec, must_be_compacted, _definition(table), at_once)
    # A loaded configuration has both: they have defaults where there is a loader.
    refresh_s, expire_s = (0 if each is None else each.total_seconds() for each in (table.refresh, table.expire))
    return LoaderTable(name, table, spec, round(refresh_s * 1000), round(expire_s * 1000))


def _definition(table: Table) -> str:
    """Two tables with the same one make the same rows of a topic. What is left out concerns other things."""
    decides = table.model_dump(mode="json", exclude=_DECIDES_NOTHING)
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

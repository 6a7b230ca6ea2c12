"""The tables of a pipeline as the agent needs them: where they come from, and how records become rows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from enrich.codecs import CachedSchemas, KnownSchemas, SchemaSource, decoder_for, schemas_of
from enrich.config import Compaction, Pipeline, Table
from stores.protocol import Decoder, KeyKind, TableSpec

_NOT_ABOUT_ROWS = {"topic", "compaction", "history", "freshness", "access"}


@dataclass(frozen=True)
class TopicTable:
    """A table that mirrors a topic."""

    name: str
    topic: str
    spec: TableSpec
    must_be_compacted: bool
    definition: str = ""
    """A digest of everything that decides which rows the topic's records become: see `_definition`."""
    at_once: Decoder | None = None
    """Like the spec's decoder, but raises NotAskedYet if that one would wait for a server."""


@dataclass(frozen=True)
class LoaderTable:
    """A table that comes straight from an external source, read again at an interval."""

    name: str
    section: Table
    spec: TableSpec
    refresh_ms: int
    expire_ms: int


@dataclass(frozen=True)
class OnDemandTable:
    """A table whose rows are loaded when they are looked up."""

    name: str
    section: Table
    spec: TableSpec
    refresh_ms: int
    expire_ms: int


AnyTable = TopicTable | LoaderTable | OnDemandTable


def all_tables(pipeline: Pipeline, schemas: SchemaSource | None = None) -> Mapping[str, AnyTable]:
    """All tables of the pipeline. `schemas` is asked instead of the registry. Raises ConfigError for columns that a
    table's format cannot fill."""
    schemas = schemas or schemas_of(pipeline.kafka.registry)
    return {name: _table(name, table, schemas) for name, table in pipeline.tables.items()}


def topic_tables(pipeline: Pipeline) -> Mapping[str, TopicTable]:
    """The tables that mirror a topic."""
    return {name: table for name, table in all_tables(pipeline).items() if isinstance(table, TopicTable)}


def _table(name: str, table: Table, schemas: SchemaSource | None) -> AnyTable:
    history_ms = round(table.history.total_seconds() * 1000)
    spec = TableSpec(table.columns.arrow, decoder_for(table, schemas), history_ms, KeyKind(table.key.value))
    if table.topic is not None:
        must_be_compacted = table.compaction is Compaction.required
        at_once = decoder_for(table, KnownSchemas(schemas)) if isinstance(schemas, CachedSchemas) else None
        return TopicTable(name, table.topic, spec, must_be_compacted, _definition(table), at_once)
    # A loaded configuration has both: a table with a loader has defaults for them.
    refresh_s, expire_s = (0 if each is None else each.total_seconds() for each in (table.refresh, table.expire))
    kind = OnDemandTable if table.on_demand else LoaderTable
    return kind(name, table, spec, round(refresh_s * 1000), round(expire_s * 1000))


def _definition(table: Table) -> str:
    """Two tables with the same definition make the same rows from a topic. The excluded keys do not affect rows."""
    decides = table.model_dump(mode="json", exclude=_NOT_ABOUT_ROWS)
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

"""The tables of a pipeline as the agent needs them: from which topic, and with which rows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from enrich.codecs import SchemaSource, decoder_for, schemas_of
from enrich.config import Compaction, Pipeline, Table
from enrich.errors import ConfigError
from stores.protocol import KeyKind, TableSpec

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


def topic_tables(pipeline: Pipeline) -> Mapping[str, TopicTable]:
    """All tables of the pipeline. Raises ConfigError for one of a kind that is not built yet."""
    schemas = schemas_of(pipeline.kafka.registry)
    return {name: _topic_table(name, table, schemas) for name, table in pipeline.tables.items()}


def _topic_table(name: str, table: Table, schemas: SchemaSource | None) -> TopicTable:
    if table.topic is None:
        raise ConfigError(f"table `{name}`: loaders are not built yet", next_step="give it a topic")
    history_ms = round(table.history.total_seconds() * 1000)
    spec = TableSpec(table.columns.arrow, decoder_for(table, schemas), history_ms, KeyKind(table.key.value))
    return TopicTable(name, table.topic, spec, table.compaction is Compaction.required, _definition(table))


def _definition(table: Table) -> str:
    """Two tables with the same one make the same rows of a topic. What is left out concerns other things."""
    decides = table.model_dump(mode="json", exclude=_DECIDES_NOTHING)
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

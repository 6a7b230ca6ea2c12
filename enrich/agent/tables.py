"""The tables of a pipeline as the agent needs them: from which topic, and with which rows."""

from collections.abc import Mapping
from dataclasses import dataclass

from enrich.codecs import SchemaSource, decoder_for, schemas_of
from enrich.config import Compaction, Pipeline, Table
from enrich.errors import ConfigError
from stores.protocol import KeyKind, TableSpec


@dataclass(frozen=True)
class TopicTable:
    """A table that mirrors a topic."""

    name: str
    topic: str
    spec: TableSpec
    must_be_compacted: bool


def topic_tables(pipeline: Pipeline) -> Mapping[str, TopicTable]:
    """All tables of the pipeline. Raises ConfigError for one of a kind that is not built yet."""
    schemas = schemas_of(pipeline.kafka.registry)
    return {name: _topic_table(name, table, schemas) for name, table in pipeline.tables.items()}


def _topic_table(name: str, table: Table, schemas: SchemaSource | None) -> TopicTable:
    if table.topic is None:
        raise ConfigError(f"table `{name}`: loaders are not built yet", next_step="give it a topic")
    history_ms = round(table.history.total_seconds() * 1000)
    spec = TableSpec(table.columns.arrow, decoder_for(table, schemas), history_ms, KeyKind(table.key.value))
    return TopicTable(name, table.topic, spec, table.compaction is Compaction.required)

"""Which mask each column has that a stage can see, of its topics as they are now and of the tables that it looks up."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Message

from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, batches_of, silent
from enrich.base.errors import BadRecord, ConfigError
from enrich.codecs.avro.columns import columns_of
from enrich.codecs.avro.schemas.registry import Registry, access_of
from enrich.config import AvroSchema, Classification, Pipeline, Source
from enrich.config.sections.masks.section import RECORD_KEY
from enrich.kafka.records import value_of
from enrich.stage.events.fields import EventFields
from enrich.stage.masking.members import members_of


@dataclass(frozen=True)
class ColumnMask:
    topic: str
    """Or the table, if it comes from no topic."""
    column: str
    mask: str
    by: str | None
    """What says so; None: nobody classified the column, so the default holds."""


def column_masks(pipeline: Pipeline, cluster: Cluster, records: int, report: Report = silent) -> Iterator[ColumnMask]:
    """Of all stages. `records`: how many of the newest records of each topic in JSON are read for their columns. Raises
    ConfigError for a pipeline without masks."""
    classes = Classification.of_pipeline(pipeline)
    if classes is None:
        raise ConfigError("the pipeline has no masks", next_step="add the section `masks`")
    known: dict[str, dict[str, None]] = {}
    masks = {}
    for stage in pipeline.stages.values():
        for topic in topics_of(stage.source, cluster):
            masks[topic] = classes.of(topic)
            columns = known.setdefault(topic, {})
            found: Iterable[str] = ()
            if stage.source.columns is not None:
                found = _sampled(cluster, topic, records, report)
            elif not isinstance(stage.source.schema_, AvroSchema):
                found = _registered(pipeline, topic)
            # A `schema` for several topics has fields that some of them lack: their records say more.
            is_shared = stage.source.schemas is None and not stage.source.is_one_topic
            declared = () if found and is_shared else _declared(stage.source, topic)
            columns.update(dict.fromkeys([*declared, *found]))
        for name in (lookup.table for lookup in stage.lookups):
            table = pipeline.tables[name]
            masks[table.topic or name] = classes.of_table(name, table)
            known.setdefault(table.topic or name, {}).update(dict.fromkeys(table.columns.names))
    for topic, columns in sorted(known.items()):
        for column in columns:
            one = masks[topic].of(column)
            yield ColumnMask(topic, column, str(one.masking), one.by)
        key = masks[topic].of_key
        yield ColumnMask(topic, RECORD_KEY, str(key.masking), key.by or "every key")


def topics_of(source: Source, cluster: Cluster) -> Iterable[str]:
    if source.topic_pattern is None:
        return [topic for topic in source.all_topics if cluster.topics.exists(topic)] or source.all_topics
    return [topic for topic in cluster.topics.names("") if source.reads(topic)]


def _declared(source: Source, topic: str) -> Iterable[str]:
    if source.schemas is not None:
        return source.schemas[topic].names if topic in source.schemas else ()
    return source.fields or ()


def _registered(pipeline: Pipeline, topic: str) -> Iterable[str]:
    """The columns of the newest schema of its values; none if there is no schema."""
    if pipeline.kafka.registry is None:
        return ()
    try:
        _, schema = Registry(access_of(pipeline.kafka.registry)).latest(f"{topic}-value")
    except (BadRecord, ConfigError):
        return ()
    return tuple(str(name) for name in columns_of(schema).names)


def _sampled(cluster: Cluster, topic: str, records: int, report: Report) -> Iterable[str]:
    if not records or not cluster.topics.exists(topic):
        return ()
    starts, ends = cluster.topics.newest_offsets(topic, -(-records // len(cluster.topics.partitions(topic))))
    names: dict[str, None] = {}
    for batch in batches_of(cluster, topic, report, starts=starts, ends=ends):
        names.update(_names_in(batch))
    return names


def _names_in(batch: Iterable[Message]) -> Mapping[str, None]:
    values = pa.array([value_of(message) for message in batch], pa.binary()).drop_null()
    usable, _ = EventFields(pa.schema([])).read(values)
    names = members_of(values.filter(pa.array(usable))).names
    return dict.fromkeys(name.decode() for name in names.unique().to_pylist())

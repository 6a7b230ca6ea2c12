"""Chooses the format of a source's events from its section of the configuration."""

from collections.abc import Mapping

from enrich.base.errors import ConfigError
from enrich.codecs.avro.schemas.merging import merged
from enrich.codecs.avro.schemas.registry import Registry, access_of
from enrich.config import EVERY_TOPIC, AvroSchema, Classification, Framing, Pipeline, Source, to_wire
from enrich.stage.formats.avro_events import AvroEvents
from enrich.stage.formats.event_format import EventFormat
from enrich.stage.formats.json_events import JsonEvents
from enrich.stage.formats.masked_events import MaskedEvents, masked_columns
from enrich.stage.formats.plain_events import PlainEvents
from enrich.stage.steps.masking import MaskEvents, Secrets
from enrich.stage.steps.reading import Bodies, WriteAsJson


def event_format(pipeline: Pipeline, source: Source) -> EventFormat:
    """Asks the registry if the section has no schema. Raises ConfigError for a format that stages cannot read, and
    Unreachable if the registry does not answer."""
    classes = Classification.of_pipeline(pipeline)
    if pipeline.masks is not None and classes is not None:
        return _masked(pipeline, source, Secrets(classes, pipeline.masks.secret))
    if source.columns is not None:
        return JsonEvents(source.columns)
    if str(source.format) in ("string", "bytes"):
        return PlainEvents(is_text=str(source.format) == "string")
    bodies = _bodies(pipeline, source)
    each = {topic: one.schema for topic, one in bodies.items()}
    schema = merged(each) if len(each) > 1 else next(iter(each.values()))
    return AvroEvents(Bodies(schema, next(iter(bodies.values())).registry_of))


def _masked(pipeline: Pipeline, source: Source, secrets: Secrets) -> EventFormat:
    mask = MaskEvents(secrets)
    if source.columns is not None:
        return MaskedEvents(JsonEvents(source.columns), [mask])
    bodies = _bodies(pipeline, source)
    whole = bodies.get(EVERY_TOPIC)
    # Nobody knows the topics of a pattern, and so neither their fields.
    schemas = {topic: bodies[topic].schema if whole is None else whole.schema for topic in source.all_topics}
    form = JsonEvents(masked_columns(schemas, secrets.classes))
    return MaskedEvents(form, [WriteAsJson(bodies, to_wire(pipeline)), mask], "the event is no Avro body of its schema")


def _bodies(pipeline: Pipeline, source: Source) -> Mapping[str, Bodies]:
    """How the events of each topic are encoded; those of all by the topic `*`."""
    schema = str(source.schema_) if isinstance(source.schema_, AvroSchema) else None
    if source.framing == Framing.bare and schema is not None:
        return {EVERY_TOPIC: Bodies(schema)}
    if pipeline.kafka.registry is None:
        raise ConfigError("events with a registry's framing need a registry", next_step="set kafka.registry.url")
    wire = to_wire(pipeline)
    if schema is not None:
        return {EVERY_TOPIC: Bodies(schema, wire)}
    # The latest schema at the start of the stage is the reader schema until the stage ends, also for newer events.
    registry = Registry(access_of(pipeline.kafka.registry))
    return {topic: Bodies(registry.latest(f"{topic}-value")[1], wire) for topic in source.all_topics}

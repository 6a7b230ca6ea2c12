"""Chooses the format of a source's events from its section of the configuration."""

from enrich.base.errors import ConfigError
from enrich.codecs.avro.schemas.merging import merged
from enrich.codecs.avro.schemas.registry import Registry, access_of
from enrich.config import AvroSchema, Classification, Framing, Pipeline, Source, to_wire
from enrich.stage.formats.avro_events import AvroEvents
from enrich.stage.formats.event_format import EventFormat
from enrich.stage.formats.json_events import JsonEvents
from enrich.stage.formats.masked_events import MaskedEvents
from enrich.stage.formats.plain_events import PlainEvents
from enrich.stage.steps.masking import MaskEvents, Secrets
from enrich.stage.steps.reading import Bodies


def event_format(pipeline: Pipeline, source: Source) -> EventFormat:
    """Asks the registry if the section has no schema. Raises ConfigError for a format that stages cannot read, and
    Unreachable if the registry does not answer."""
    classes = Classification.of_pipeline(pipeline)
    if pipeline.masks is None or classes is None:
        return _as_they_are(pipeline, source)
    if source.columns is None:
        raise NotImplementedError
    return MaskedEvents(JsonEvents(source.columns), [MaskEvents(Secrets(classes, pipeline.masks.secret))])


def _as_they_are(pipeline: Pipeline, source: Source) -> EventFormat:
    if source.columns is not None:
        return JsonEvents(source.columns)
    if str(source.format) in ("string", "bytes"):
        return PlainEvents(is_text=str(source.format) == "string")
    schema = str(source.schema_) if isinstance(source.schema_, AvroSchema) else None
    if source.framing == Framing.bare and schema is not None:
        return AvroEvents(Bodies(schema))
    if pipeline.kafka.registry is None:
        raise ConfigError("events with a registry's framing need a registry", next_step="set kafka.registry.url")
    if schema is None:
        # The latest schema at the start of the stage is the reader schema until the stage ends, also for newer events.
        registry = Registry(access_of(pipeline.kafka.registry))
        latest = {topic: registry.latest(f"{topic}-value")[1] for topic in source.all_topics}
        schema = merged(latest) if len(latest) > 1 else latest[source.all_topics[0]]
    return AvroEvents(Bodies(schema, to_wire(pipeline)))

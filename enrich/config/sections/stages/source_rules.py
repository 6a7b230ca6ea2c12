"""Rules inside the source of a stage."""

from collections.abc import Iterator

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import hint
from enrich.config.sections.kafka.section import KafkaSection
from enrich.config.sections.stages.source import Source, differing
from enrich.config.sections.tables.rules import encoding_rules
from enrich.config.types.encoding import Format

_WAYS = ("topic", "topics", "topic_pattern")


def source_rules(source: Source, here: Path, kafka: KafkaSection, *, has_masks: bool) -> Iterator[Finding]:
    yield from encoding_rules(source, here, kafka)
    yield from _topic_rules(source, here)
    if source.schemas is not None:
        yield from _schemas_rules(source, here)
    elif source.format == Format.json and source.schema_ is None:
        message = 'needed with format: json, for the fields that expressions use: "user_id string, ts timestamp"'
        yield Finding((*here, "schema"), message, about=(here,))
    elif source.topic_pattern and _lacks_schema(source) and not has_masks:
        message = "needed with a pattern: the schema that all events are read as, since the topics are not known"
        yield Finding((*here, "schema"), message, about=(here,))


def _lacks_schema(source: Source) -> bool:
    return source.format == Format.avro and source.schema_ is None and source.file is None


def _topic_rules(source: Source, here: Path) -> Iterator[Finding]:
    given = [way for way in _WAYS if getattr(source, way) is not None]
    if not given:
        yield Finding((*here, "topic"), "missing: The topic that the events come from, or `topics`.", about=(here,))
    for way in given[1:]:
        yield Finding((*here, way), f"not beside `{given[0]}`: give one of them", about=((*here, given[0]),))


def _schemas_rules(source: Source, here: Path) -> Iterator[Finding]:
    schemas, at = source.schemas or {}, (*here, "schemas")
    topics = tuple((*here, way) for way in _WAYS)
    if source.format != Format.json:
        yield Finding(at, f"only for format: json, and the format is {source.format}", about=((*here, "format"),))
        return
    if source.schema_ is not None:
        yield Finding(at, "not beside `schema`, which is for all topics", about=((*here, "schema"),))
    if source.topic_pattern is not None:
        message = "not with a pattern, whose topics are not known: give one `schema` for all"
        yield Finding(at, message, about=topics)
        return
    named = source.all_topics
    for topic in schemas:
        if topic not in named:
            message = f"the source has no topic {topic}{hint(topic, named, 'topics')}"
            yield Finding((*at, topic), message, about=topics, key=True)
    for topic in named:
        if topic not in schemas:
            yield Finding(at, f"missing: the fields of the topic {topic}", about=topics)
    for topic, other, message in differing(schemas):
        yield Finding((*at, topic), message, about=((*at, other),))

"""How the objects of a route become Avro: by the newest schema that the registry has for each of its topics."""

from collections.abc import Mapping

import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.codecs.avro.encoding.writing import AvroWriter, NoWay
from enrich.codecs.avro.schemas.deriving import NoSchema, derived
from enrich.codecs.avro.schemas.registry import Registry, access_of
from enrich.config import Route
from enrich.config.sections.kafka.section import Registry as RegistrySection


def avro_writers(route: Route, kind: pa.StructType, section: RegistrySection, where: str) -> Mapping[str, AvroWriter]:
    """By topic. A topic without a schema gets one, whose fields may all be null. Raises ConfigError for objects that do
    not fit the schema that there is, Unreachable if the registry does not answer."""
    registry = Registry(access_of(section))
    return {topic: _writer(registry, topic, kind, f"`{route.select}`", where) for topic in route.all_topics}


def _writer(registry: Registry, topic: str, kind: pa.StructType, what: str, where: str) -> AvroWriter:
    subject = f"{topic}-value"
    try:
        schema_id, schema = registry.latest_or_new(subject, lambda: derived(kind, topic))
    except NoSchema as problem:
        raise ConfigError(
            f"{what} has no schema in Avro: {problem}", where=where, next_step="cast or rename it in `select`"
        ) from None
    writer = AvroWriter(schema, schema_id, kind)
    try:
        writer.check()
    except NoWay as problem:
        raise ConfigError(
            f"{what} does not fit schema {schema_id}, the newest of {subject}: {problem}",
            where=where,
            next_step="change `select`, or register a newer schema",
        ) from None
    return writer

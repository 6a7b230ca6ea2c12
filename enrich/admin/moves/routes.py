"""Makes a route from the names that a person gives. Creates the new topic if it is missing."""

from contextlib import suppress
from dataclasses import replace

from enrich.admin.cluster import Cluster
from enrich.admin.moves.move import Route
from enrich.admin.moves.transcoding import recoded, unchanged
from enrich.admin.topics.wanted import DEFAULT_PARTITIONS, Wanted, wanted_topics
from enrich.base.errors import ConfigError
from enrich.codecs import decoder_for, schemas_of
from enrich.codecs.encoders import encoder_of_table
from enrich.config import Pipeline, Table
from enrich.kafka.topic_settings import is_compacted


def rekey_route(pipeline: Pipeline, table: str, target: str, partitions: int | None, cluster: Cluster) -> Route:
    """The same records in a topic with other partitions. Raises ConfigError for a target with a different number of
    partitions."""
    source = _topic(pipeline, table)
    wanted = wanted_topics(pipeline)
    if not target:
        raise ConfigError("the new topic has no name", where="--to")
    if target == source:
        raise ConfigError("a table cannot move to its own topic", where=f"topic {source}", next_step="name another")
    like = wanted.get(target) or replace(wanted[source], name=target)
    _require_target(
        cluster, source, like, partitions or like.wishes.partitions or len(cluster.topics.partitions(source))
    )
    return Route(source, target, unchanged)


def copy_route(pipeline: Pipeline, old: str, new: str, cluster: Cluster) -> Route:
    """The rows of one table in the topic, format and columns of another one."""
    source, target = _topic(pipeline, old), _topic(pipeline, new)
    if target == source:
        raise ConfigError(f"the tables {old} and {new} have the same topic", where=f"topic {source}")
    before, after = pipeline.tables[old], pipeline.tables[new]
    like = wanted_topics(pipeline)[target]
    _require_target(cluster, source, like, like.wishes.partitions or len(cluster.topics.partitions(source)))
    if _encoding(before) == _encoding(after):
        return Route(source, target, unchanged)
    decoder = decoder_for(before, schemas_of(pipeline.kafka.registry))
    encoder = encoder_of_table(after, pipeline.kafka)
    return Route(source, target, recoded(decoder, encoder, before.columns.arrow, after.columns.arrow))


def _topic(pipeline: Pipeline, table: str) -> str:
    section = pipeline.tables.get(table)
    if section is None:
        raise ConfigError(f"there is no table `{table}`", next_step=f"choose from {', '.join(pipeline.tables)}")
    if section.topic is None:
        raise ConfigError(f"table `{table}` mirrors no topic")
    return section.topic


def _encoding(table: Table) -> tuple[str, ...]:
    return tuple(str(part) for part in (table.format, table.framing, table.schema_, table.columns))


def _require_target(cluster: Cluster, source: str, like: Wanted, partitions: int) -> None:
    if not cluster.topics.exists(like.name):
        copies = like.wishes.replication or -1
        room: dict[str, str] = {}
        with suppress(ConfigError):  # without the right to read the settings: the brokers' default
            # If nobody has said how large its records may be: as large as those that come.
            room["max.message.bytes"] = cluster.topics.settings(source)["max.message.bytes"]
        config = {**room, **like.settings}
        cluster.topics.create(like.name, partitions=partitions or DEFAULT_PARTITIONS, replication=copies, config=config)
        return
    if not is_compacted(cluster.topics.settings(like.name)):
        raise ConfigError(
            "the target is not compacted",
            where=f"topic {like.name}",
            next_step="name another, or one that does not exist yet",
        )
    has = len(cluster.topics.partitions(like.name))
    if has != partitions:
        raise ConfigError(
            f"the target has {has} partitions, and not {partitions}",
            where=f"topic {like.name}",
            next_step="name another",
        )

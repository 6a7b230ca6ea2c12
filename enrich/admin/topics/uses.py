"""Who uses which topic, and what for, by the configuration."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from enrich.config import Compaction, Invalid, Pipeline, holds_topic, retry_in_topics, retry_out_topic, retry_topics
from enrich.config.sections.sync.sources import tables_topic
from enrich.config.types.encoding import Format
from enrich.tally.writing import KEPT


class Use(StrEnum):
    """What a topic is for. If it has several uses, the first in this order decides."""

    table = "table"
    rows = "rows"
    letters = "letters"
    holds = "holds"
    states = "states"
    tallies = "tallies"
    verdicts = "verdicts"
    ratings = "ratings"
    events = "events"


class Right(StrEnum):
    """A right that this user needs on a topic, as Kafka names it."""

    read = "READ"
    write = "WRITE"
    describe = "DESCRIBE"
    describe_configs = "DESCRIBE_CONFIGS"


READS = frozenset({Right.read, Right.describe, Right.describe_configs})
# DESCRIBE_CONFIGS because the settings contain the largest record size.
WRITES = frozenset({Right.write, Right.describe, Right.describe_configs})


@dataclass(frozen=True)
class Used:
    topic: str
    use: Use
    by: str
    rights: frozenset[Right]
    format: str | None = None
    history: timedelta = timedelta()
    any_policy: bool = False
    kept: timedelta | None = None
    """How long its records are needed at least."""
    takes_all_of: str | None = None
    """The topic whose records it must take, with headers of ours."""
    is_partitioned_alike: bool = False
    """It needs at least as many partitions as that topic."""
    is_acknowledged: bool = False
    """Somebody outside was told that its records are safe."""
    is_only_found: bool = False
    """A pattern matches it. Its settings are not this pipeline's to change."""


NO_TABLES: Mapping[str, Collection[str]] = {}


def uses_of(
    pipeline: Pipeline, existing: Collection[str] = (), of_tables: Mapping[str, Collection[str]] = NO_TABLES
) -> Iterator[Used]:
    """`existing`: the topics that there are, of which patterns choose. `of_tables`: by source with `tables`, the topics
    that it has made. Others may have names of the same form, and be somebody else's."""
    yield from _of_tables(pipeline)
    yield from _of_stages(pipeline, existing)
    yield from _of_sync(pipeline, of_tables)
    yield from _of_ingest(pipeline)
    yield from _of_expel(pipeline)
    if pipeline.tallies_topic is not None:
        rights = WRITES if pipeline.observe is None else READS | WRITES
        yield Used(pipeline.tallies_topic, Use.tallies, "tallies of all nodes", rights, kept=KEPT)
    if pipeline.observe is not None:
        yield Used(pipeline.ratings_topic, Use.ratings, "ratings of the pipeline", READS | WRITES)
        yield Used(
            pipeline.minutes_topic,
            Use.verdicts,
            "verdicts of the observer",
            READS | WRITES,
            kept=pipeline.observe.loss.keep,
        )


def _of_tables(pipeline: Pipeline) -> Iterator[Used]:
    for name, table in pipeline.tables.items():
        if table.topic is not None:
            any_policy = table.compaction is Compaction.any
            form = _format(str(table.format), table.framing)
            yield Used(table.topic, Use.table, f"table {name}", READS, form, table.history, any_policy)
        if table.preload is not None and table.preload.topic is not None:
            yield Used(table.preload.topic, Use.table, f"keys to preload of table {name}", READS, any_policy=True)


def _of_stages(pipeline: Pipeline, existing: Collection[str]) -> Iterator[Used]:
    for name, stage in pipeline.stages.items():
        source = _format_of_any(str(stage.source.format), stage.source.framing)
        by = f"source of stage {name}"
        for topic in stage.source.all_topics:
            yield Used(topic, Use.events, by, READS, source)
        if stage.source.topic_pattern is not None:
            for topic in filter(stage.source.reads, existing):
                yield Used(topic, Use.events, by, READS, is_only_found=True)
        if stage.sink is not None:
            yield Used(stage.sink.topic, Use.events, f"sink of stage {name}", WRITES, str(stage.sink.format))
        for route in stage.routes:
            for topic in route.all_topics:
                yield Used(topic, Use.events, f"route {route.name} of stage {name}", WRITES, "json")
        if stage.dlq is not None:
            yield Used(stage.dlq, Use.letters, f"dead letters of stage {name}", WRITES)
        if stage.writeback is not None:
            yield Used(stage.writeback.topic, Use.rows, f"write-back of stage {name}", WRITES)


def _of_sync(pipeline: Pipeline, of_tables: Mapping[str, Collection[str]]) -> Iterator[Used]:
    if pipeline.sync is None:
        return
    for name, route in pipeline.sync.writeback.items():
        form = _format_of_any(str(route.format), route.framing)
        yield Used(route.topic, Use.rows, f"write-back route {name}", READS, form)
        yield Used(route.dlq, Use.letters, f"dead letters of route {name}", WRITES)
        for topic, _ in retry_topics(pipeline.name, name, route.retries):
            yield Used(topic, Use.events, f"retries of route {name}", READS | WRITES, form)
    for name, origin in pipeline.sync.sources.items():
        form = _format(str(origin.format), origin.framing)
        by = f"source route {name}"
        if not origin.has_many_tables:
            yield Used(origin.topic, Use.rows, by, READS | WRITES, form)
            continue
        yield Used(tables_topic(pipeline.name, name), Use.states, f"tables of source route {name}", READS | WRITES)
        for topic in of_tables.get(name, ()):
            yield Used(topic, Use.rows, by, READS | WRITES, form)


def _of_ingest(pipeline: Pipeline) -> Iterator[Used]:
    for name, entry in pipeline.ingest.items():
        form = _format_of_any(str(entry.format), entry.framing)
        yield Used(entry.topic, Use.events, f"ingest {name}", WRITES, form, is_acknowledged=True)
        if entry.invalid is Invalid.dlq:
            yield Used(entry.dlq, Use.letters, f"dead letters of ingest {name}", WRITES)


def _of_expel(pipeline: Pipeline) -> Iterator[Used]:
    for name, route in pipeline.expel.items():
        yield Used(route.topic, Use.events, f"expel route {name}", READS)
        yield Used(route.dlq, Use.letters, f"dead letters of expel route {name}", WRITES, takes_all_of=route.topic)
        if not route.retries:
            continue
        # An event becomes a dead letter by its age, not by being deleted while it waits.
        kept = max(route.retries) + route.max_age
        waiting = [topic for topic, _ in retry_in_topics(pipeline.name, name, route.retries)]
        for topic in (*waiting, retry_out_topic(pipeline.name, name)):
            yield Used(
                topic,
                Use.events,
                f"retries of expel route {name}",
                READS | WRITES,
                kept=kept,
                takes_all_of=route.topic,
                is_partitioned_alike=True,
            )
    if pipeline.expel:
        yield Used(holds_topic(pipeline.name), Use.holds, "holds of expel routes", READS | WRITES)


def _format_of_any(name: str, framing: object) -> str | None:
    """None if any record may be taken so: another pipeline may know more of them."""
    return None if name in (Format.bytes, Format.string) else _format(name, framing)


def _format(name: str, framing: object) -> str:
    return name if framing is None else f"{name} ({framing})"

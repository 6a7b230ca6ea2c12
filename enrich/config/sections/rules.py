"""All rules that pydantic's fields cannot check: those of the sections, and those across the whole pipeline."""

import os.path
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from urllib.parse import unquote, urlsplit

from enrich.config.messages.problems import Finding, Path
from enrich.config.sections.edges.ingest import Invalid
from enrich.config.sections.edges.rules import edge_rules
from enrich.config.sections.host.memory_shares import memory_rules
from enrich.config.sections.kafka.rules import kafka_rules
from enrich.config.sections.masks.rules import mask_rules
from enrich.config.sections.observe.rules import observe_rules
from enrich.config.sections.own_topics import kept_topics, waiting_topics
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.stages.pattern_rules import pattern_rules
from enrich.config.sections.stages.rules import stage_rules
from enrich.config.sections.stages.stage import Stage
from enrich.config.sections.sync.rules import sync_rules
from enrich.config.sections.tables.rules import table_rules


def broken_rules(pipeline: Pipeline) -> Iterator[Finding]:
    yield from kafka_rules(pipeline.kafka)
    yield from memory_rules(pipeline.memory)
    for name, table in pipeline.tables.items():
        yield from table_rules(table, ("tables", name), pipeline.kafka)
    for name, stage in pipeline.stages.items():
        yield from stage_rules(
            stage, ("stages", name), pipeline.kafka, pipeline.tables, has_masks=pipeline.masks is not None
        )
    if pipeline.sync is not None:
        yield from sync_rules(pipeline, pipeline.sync, ("sync",))
    yield from edge_rules(pipeline)
    yield from observe_rules(pipeline)
    yield from mask_rules(pipeline)
    yield from _topic_rules(pipeline)
    yield from _own_topic_rules(pipeline)
    yield from pattern_rules(pipeline)
    yield from _directory_rules(pipeline)


def _topic_rules(pipeline: Pipeline) -> Iterator[Finding]:
    tables = {table.topic: name for name, table in pipeline.tables.items() if table.topic is not None}
    for name, stage in pipeline.stages.items():
        here = ("stages", name)
        yield from _own_topics(stage, here)
        if pipeline.tallies_topic is not None and stage.source.reads(pipeline.tallies_topic):
            message = f"{pipeline.tallies_topic} is the topic of tallies: the stage would read what it writes"
            yield Finding(_source_path(stage, here), message)
        if stage.dlq in tables:
            table = tables[stage.dlq]
            message = f"{stage.dlq} is the topic of the table {table}: dead letters would become its rows"
            yield Finding((*here, "dlq"), message, about=(("tables", table, "topic"),))
    for circle in _circles(pipeline):
        message = f"the stages {' -> '.join([*circle, circle[0]])} feed each other: events would go round for ever"
        about = tuple(("stages", name) for name in circle)
        yield Finding(_output_path(pipeline.stages[circle[0]], ("stages", circle[0])), message, about=about)


def _own_topics(stage: Stage, here: Path) -> Iterator[Finding]:
    topics: list[tuple[str, Path, str | None]] = [
        *(("source", _source_path(stage, here), topic) for topic in stage.source.all_topics),
        *(("sink" if stage.sink else "routes", _output_path(stage, here), topic) for topic in stage.outputs),
        ("dlq", (*here, "dlq"), stage.dlq),
        ("writeback", (*here, "writeback", "topic"), stage.writeback.topic if stage.writeback else None),
    ]
    pattern = stage.source.topic_pattern
    for index, (_, path, topic) in enumerate(topics):
        if pattern is not None and topic is not None and stage.source.reads(topic):
            message = f"{topic} is one of the topics {pattern} of the source: the stage would read what it writes"
            yield Finding(path, message, about=(_source_path(stage, here),))
        for other, other_path, other_topic in topics[:index]:
            if topic is not None and topic == other_topic:
                so = "the stage would read what it writes" if other == "source" else "it would hold two kinds of record"
                yield Finding(path, f"{topic} is also the topic of the {other}: {so}", about=(other_path,))
                break


def _own_topic_rules(pipeline: Pipeline) -> Iterator[Finding]:
    """Events among what programs keep would be lost: these topics are compacted, or kept for a short time."""
    kept = {topic: (what, path) for topic, what, path in kept_topics(pipeline)}
    waiting = {topic: (what, path) for topic, what, path in waiting_topics(pipeline)}
    for topic, path, own in (
        *((topic, path, {**waiting, **kept}) for topic, path in _named_topics(pipeline)),
        *((topic, path, kept) for topic, path in _dlqs_of_routes(pipeline)),  # they have rules of their own
    ):
        if topic in own:
            what, about = own[topic]
            yield Finding(path, f"{topic} is {what}: choose another name", about=(about,))


def _named_topics(pipeline: Pipeline) -> Iterator[tuple[str | None, Path]]:
    """Those of tables, and all that the pipeline writes but for the DLQs of routes."""
    for name, table in pipeline.tables.items():
        yield table.topic, ("tables", name, "topic")
    for name, stage in pipeline.stages.items():
        here = ("stages", name)
        for topic in stage.outputs:
            yield topic, _output_path(stage, here)
        yield stage.dlq, (*here, "dlq")
        if stage.writeback is not None:
            yield stage.writeback.topic, (*here, "writeback", "topic")
    for name, entry in pipeline.ingest.items():
        yield entry.topic, ("ingest", name, "topic")
        if entry.invalid is Invalid.dlq:
            yield entry.dlq, ("ingest", name, "dlq")
    for name, origin in ({} if pipeline.sync is None else pipeline.sync.sources).items():
        yield origin.topic, ("sync", "sources", name, "topic")


def _dlqs_of_routes(pipeline: Pipeline) -> Iterator[tuple[str | None, Path]]:
    for name, route in pipeline.expel.items():
        yield route.dlq, ("expel", name, "dlq")
    for name, back in ({} if pipeline.sync is None else pipeline.sync.writeback).items():
        yield back.dlq, ("sync", "writeback", name, "dlq")


def _output_path(stage: Stage, here: Path) -> Path:
    return (*here, "routes") if stage.sink is None else (*here, "sink", "topic")


def _source_path(stage: Stage, here: Path) -> Path:
    ways = ("topic", "topics", "topic_pattern")
    return (*here, "source", next((way for way in ways if getattr(stage.source, way) is not None), "topic"))


def _circles(pipeline: Pipeline) -> Iterator[list[str]]:
    """The first cycle of stages, each of which reads what the next one writes."""
    writers: dict[str, list[str]] = {}
    for name, stage in pipeline.stages.items():
        for topic in stage.outputs:
            writers.setdefault(topic, []).append(name)
    before = {
        # A stage that reads its own sink is reported elsewhere.
        name: [
            writer
            for topic, names in writers.items()
            if stage.source.reads(topic)
            for writer in names
            if writer != name
        ]
        for name, stage in pipeline.stages.items()
    }
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        yield error.args[1][:-1]


def _directory_rules(pipeline: Pipeline) -> Iterator[Finding]:
    checkpoints: dict[str, str] = {}
    for name, stage in pipeline.stages.items():
        path = ("stages", name, "checkpoint")
        directory = _local(stage.checkpoint)
        other = checkpoints.setdefault(directory or stage.checkpoint, name)
        if other != name:
            yield Finding(path, f"the stage {other} has the same one", about=(("stages", other, "checkpoint"),))
        if directory is not None and os.path.commonpath([directory, pipeline.state_dir]) == pipeline.state_dir:
            message = "lies inside state_dir, whose contents can be deleted at any time; a checkpoint cannot"
            yield Finding(path, message, about=(("state_dir",),))


def _local(location: str) -> str | None:
    """The local directory, or None for another file system."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", location):
        return location
    parts = urlsplit(location)
    return os.path.normpath(unquote(parts.path)) if parts.scheme == "file" and parts.path.startswith("/") else None

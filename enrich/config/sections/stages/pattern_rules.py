"""What the pattern of a stage's source may not match: topics of the pipeline that have no events to read."""

from collections.abc import Iterator

from enrich.config.messages.problems import Finding, Path
from enrich.config.sections.edges.ingest import Invalid
from enrich.config.sections.own_topics import kept_topics, waiting_topics
from enrich.config.sections.pipeline import Pipeline


def pattern_rules(pipeline: Pipeline) -> Iterator[Finding]:
    for name, stage in pipeline.stages.items():
        if stage.source.topic_pattern is None:
            continue
        for topic, what, path in _no_events(pipeline, name):
            if stage.source.reads(topic):
                message = f"matches {topic}, {what}: the stage would read its records as events"
                yield Finding(("stages", name, "source", "topic_pattern"), message, about=(path,))


def _no_events(pipeline: Pipeline, but: str) -> Iterator[tuple[str, str, Path]]:
    """Each with what it is and where that stands. `but`: a stage, whose own topics have rules of their own."""
    for name, table in pipeline.tables.items():
        if table.topic is not None:
            yield table.topic, f"the topic of the table {name}", ("tables", name, "topic")
    for name, stage in pipeline.stages.items():
        if name == but:
            continue
        if stage.dlq is not None:
            yield stage.dlq, f"the DLQ of the stage {name}", ("stages", name, "dlq")
        if stage.writeback is not None:
            path = ("stages", name, "writeback", "topic")
            yield stage.writeback.topic, f"the write-back of the stage {name}", path
    for name, entry in pipeline.ingest.items():
        if entry.invalid is Invalid.dlq:
            yield entry.dlq, f"the DLQ of the ingest {name}", ("ingest", name, "dlq")
    for name, route in pipeline.expel.items():
        yield route.dlq, f"the DLQ of the expel route {name}", ("expel", name, "dlq")
    yield from waiting_topics(pipeline)
    for own in kept_topics(pipeline):
        if own[0] != pipeline.tallies_topic:  # that one is refused for topics without a pattern, too
            yield own
    if pipeline.sync is None:
        return
    for name, back in pipeline.sync.writeback.items():
        yield back.dlq, f"the DLQ of the write-back {name}", ("sync", "writeback", name, "dlq")
    for name, origin in pipeline.sync.sources.items():
        if not origin.has_many_tables:  # stages may read the topics of its tables
            yield origin.topic, f"the topic of the source {name}", ("sync", "sources", name, "topic")

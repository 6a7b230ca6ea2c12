"""All rules between sections, in one place: what pydantic's fields cannot see."""

from collections.abc import Iterator

from enrich.config.kafka_rules import kafka_rules, memory_rules
from enrich.config.pipeline import Pipeline
from enrich.config.problems import Finding
from enrich.config.stage_rules import stage_rules
from enrich.config.sync_rules import sync_rules
from enrich.config.table_rules import table_rules
from enrich.config.topic_rules import directory_rules, topic_rules


def broken_rules(pipeline: Pipeline) -> Iterator[Finding]:
    yield from kafka_rules(pipeline.kafka)
    yield from memory_rules(pipeline.memory)
    for name, table in pipeline.tables.items():
        yield from table_rules(table, ("tables", name), pipeline.kafka)
    for name, stage in pipeline.stages.items():
        yield from stage_rules(stage, ("stages", name), pipeline.kafka, pipeline.tables)
    if pipeline.sync is not None:
        yield from sync_rules(pipeline, pipeline.sync, ("sync",))
    yield from topic_rules(pipeline)
    yield from directory_rules(pipeline)

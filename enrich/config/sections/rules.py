"""Runs all rules that pydantic's fields cannot check."""

from collections.abc import Iterator

from enrich.config.messages.problems import Finding
from enrich.config.sections.host.memory_shares import memory_rules
from enrich.config.sections.kafka.rules import kafka_rules
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.pipeline_rules import directory_rules, topic_rules
from enrich.config.sections.stages.rules import stage_rules
from enrich.config.sections.sync.rules import sync_rules
from enrich.config.sections.tables.rules import table_rules


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

"""The topics whose names follow from the pipeline's, and which have records of `enrich` itself."""

from collections.abc import Iterator

from enrich.config.messages.problems import Path
from enrich.config.sections.edges.expel import holds_topic, retry_in_topics, retry_out_topic
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.sync.sources import tables_topic
from enrich.config.sections.sync.writeback import retry_topics

Own = tuple[str, str, Path]
"""A topic, what it is, and the part of the configuration that it is from."""


def kept_topics(pipeline: Pipeline) -> Iterator[Own]:
    """What programs keep there."""
    if pipeline.tallies_topic is not None:
        yield pipeline.tallies_topic, "the topic of tallies", ("tallies",)
    if pipeline.observe is not None:
        yield pipeline.minutes_topic, "the topic of the observer's verdicts", ("observe",)
        yield pipeline.ratings_topic, "the topic of ratings", ("observe",)
    if pipeline.expel:
        yield holds_topic(pipeline.name), "the topic of routes that are on hold", ("expel",)
    if pipeline.sync is not None:
        for name, origin in pipeline.sync.sources.items():
            if origin.has_many_tables:
                path = ("sync", "sources", name, "topic")
                yield tables_topic(pipeline.name, name), f"what the source {name} keeps about its tables", path


def waiting_topics(pipeline: Pipeline) -> Iterator[Own]:
    """Events and rows between two tries."""
    for name, route in pipeline.expel.items():
        waiting = [topic for topic, _ in retry_in_topics(pipeline.name, name, route.retries)]
        for topic in (*waiting, retry_out_topic(pipeline.name, name)):
            yield topic, f"where events of the expel route {name} wait", ("expel", name, "retries")
    for name, back in ({} if pipeline.sync is None else pipeline.sync.writeback).items():
        for topic, _ in retry_topics(pipeline.name, name, back.retries):
            yield topic, f"where rows of the write-back {name} wait", ("sync", "writeback", name, "retries")

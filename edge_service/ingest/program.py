"""The role `ingest`: serves all entries of the section `ingest`."""

from enrich.base.errors import ConfigError
from enrich.config import Pipeline


def run(pipeline: Pipeline) -> int:
    """Until it is stopped. Raises ConfigError if there is nothing to serve."""
    raise ConfigError(f"the pipeline {pipeline.name} takes no events", next_step="name entries under `ingest`")

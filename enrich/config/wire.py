"""Sends a pipeline to another process of ours: complete and resolved once, so that both have the same.

A child may have another working directory and environment, and another host other files: they must not load the file.
"""

import json

from pydantic import SecretStr

from enrich.config.sections.pipeline import Pipeline


def to_wire(pipeline: Pipeline) -> str:
    """JSON with all secrets in it, for a pipe that a child process inherits. Never for a file, a log or arguments."""
    return json.dumps(pipeline.model_dump(exclude_none=True), default=_reveal)


def from_wire(text: str) -> Pipeline:
    """The pipeline that was given to `to_wire`. Replaces no variables and reads no files."""
    return Pipeline.model_validate(json.loads(text))


def _reveal(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    raise TypeError(f"{type(value).__name__} in a configuration")

"""A pipeline as another process of ours gets it: whole, and resolved once, so that no second reading can differ.

A child has another working directory and environment, and on another host other files: it must not load the file again.
"""

import json

from pydantic import SecretStr

from enrich.config.sections.pipeline import Pipeline


def to_wire(pipeline: Pipeline) -> str:
    """JSON with all secrets in it, for a pipe that a child process inherits. Never for a file, a log or arguments."""
    return json.dumps(pipeline.model_dump(exclude_none=True), default=_reveal)


def from_wire(text: str) -> Pipeline:
    """What `to_wire` was given; no variable is replaced and no file read again."""
    return Pipeline.model_validate(json.loads(text))


def _reveal(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    raise TypeError(f"{type(value).__name__} in a configuration")

"""A pipeline as people and other processes get it: resolved and masked to be read, or whole to be handed on."""

import io
import json
from typing import Any

from pydantic import SecretStr
from ruamel.yaml import YAML

from enrich.config.environment import escape
from enrich.config.pipeline import Pipeline


def as_data(pipeline: Pipeline) -> dict[str, Any]:
    """Plain data with all defaults filled in; passwords masked, user names not."""
    return pipeline.model_dump(mode="json", exclude_none=True)


def as_yaml(pipeline: Pipeline) -> str:
    """The same as a configuration file, which loads to the same pipeline, but for the masked passwords."""
    yaml = YAML()
    yaml.width = 4096  # a long expression stays on one line, where one can find it
    out = io.StringIO()
    yaml.dump(_escaped(as_data(pipeline)), out)
    return out.getvalue()


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


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return escape(value)
        case dict():
            return {key: _escaped(item) for key, item in value.items()}
        case list():
            return [_escaped(item) for item in value]
    return value

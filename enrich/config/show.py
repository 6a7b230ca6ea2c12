"""A pipeline as people read it: variables replaced, defaults filled in, passwords masked."""

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from enrich.config.file.environment import escape
from enrich.config.file.yaml_tree import FORBIDDEN
from enrich.config.sections.pipeline import Pipeline


def as_data(pipeline: Pipeline) -> dict[str, Any]:
    """Plain data with all defaults filled in; passwords masked, user names not."""
    return pipeline.model_dump(mode="json", exclude_none=True)


def as_yaml(pipeline: Pipeline) -> str:
    """The same as a configuration file, which loads to the same pipeline, but for the masked passwords."""
    yaml = YAML()
    yaml.width = 4096  # keeps a long expression on one line, so that it can be searched for
    out = io.StringIO()
    yaml.dump(_escaped(as_data(pipeline)), out)
    return out.getvalue()


def _escaped(value: Any) -> Any:
    match value:
        case str():
            # ruamel only escapes characters that must be escaped if it is forced to quote.
            return DoubleQuotedScalarString(escape(value)) if FORBIDDEN.search(value) else escape(value)
        case dict():
            return {key: _escaped(item) for key, item in value.items()}
        case list():
            return [_escaped(item) for item in value]
    return value

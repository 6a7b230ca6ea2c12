"""The section `sync`: what the sync service moves between topics and external stores, in both directions."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, JsonValue

from enrich.config.sections.sync.sources import SyncSource
from enrich.config.sections.sync.writeback import SyncWriteback, filled_writeback
from enrich.config.types.fields import NAME_PATTERN, ListenAddress, Name, Section

_NAMED: dict[str, JsonValue] = {"propertyNames": {"pattern": NAME_PATTERN}}


class Sync(Section):
    """The routes of the sync service."""

    listen: ListenAddress = "127.0.0.1:9400"
    """Where the service answers `/healthz`, `/readyz`, `/metrics` and `/status`, without a login."""
    writeback: Mapping[Name, SyncWriteback] = Field(default_factory=dict, json_schema_extra=_NAMED)
    """Topics that are written to external stores, by name."""
    sources: Mapping[Name, SyncSource] = Field(default_factory=dict, json_schema_extra=_NAMED)
    """External systems whose rows are written to compacted topics, by name."""


def filled_sync(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """The section as far as it has one, with the defaults that follow from the rest of the pipeline."""
    sync = pipeline.get("sync")
    if not isinstance(sync, Mapping) or not isinstance(sync.get("writeback"), Mapping):
        return {}
    routes = {name: filled_writeback(pipeline, str(name), route) for name, route in sync["writeback"].items()}
    return {"sync": {**sync, "writeback": routes}}

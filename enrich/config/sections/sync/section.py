"""The section `sync`: what the sync service moves between topics and external stores, in both directions."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, JsonValue

from enrich.config.sections.sync.sources import SyncSource
from enrich.config.sections.sync.writeback import SyncWriteback, filled_writeback
from enrich.config.types.fields import NAME_PATTERN, Matching, Name, Section

_PORT = "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
LISTEN_PATTERN = rf"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):{_PORT}$"

ListenAddress = Annotated[str, Matching(LISTEN_PATTERN, "an address such as 127.0.0.1:9400")]

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

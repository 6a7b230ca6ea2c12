"""From the configuration to the routes: the one place that knows all kinds of them."""

from enrich.config import Pipeline
from enrich.errors import ConfigError
from sync_service.reconcile import reconcile_routes
from sync_service.routes import Route
from sync_service.sources import source_routes
from sync_service.writeback import writeback_routes


def routes_of(pipeline: Pipeline) -> list[Route]:
    """All routes of the section `sync`. Raises ConfigError when there is none. Connects to nothing."""
    routes: list[Route] = [*source_routes(pipeline), *writeback_routes(pipeline), *reconcile_routes(pipeline)]
    if not routes:
        raise ConfigError(
            f"the pipeline {pipeline.name} has nothing to sync",
            next_step="name routes under `sync.writeback` or `sync.sources`",
        )
    return routes

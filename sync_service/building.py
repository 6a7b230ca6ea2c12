"""Makes the routes from the configuration: the only module that knows all kinds of them."""

from collections.abc import Iterable

from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.service.routes import Route
from sync_service.reconcile import reconcile_routes
from sync_service.writeback import Clients, OldTiersRoute, WritebackRoute
from sync_service.writeback.plan import plans_of


def routes_of(pipeline: Pipeline) -> list[Route]:
    """All routes of the section `sync`. Raises ConfigError if there is none. Opens no connection."""
    routes: list[Route] = [*_source_routes(pipeline), *_writeback_routes(pipeline), *reconcile_routes(pipeline)]
    if not routes:
        raise ConfigError(
            f"the pipeline {pipeline.name} has nothing to sync",
            next_step="name routes under `sync.writeback` or `sync.sources`",
        )
    return routes


def close(routes: Iterable[Route]) -> None:
    """Once they have ended. Waits a moment for the tallies that are not written yet."""
    for clients in {route.clients for route in routes if isinstance(route, WritebackRoute)}:
        clients.tallies.close()


def _source_routes(pipeline: Pipeline) -> list[Route]:
    if pipeline.sync is None or not pipeline.sync.sources:
        return []
    # Imported late: it takes a third of the start-up time and of the memory, and write-back alone does not need it.
    from sync_service.sources import source_routes

    return [*source_routes(pipeline)]


def _writeback_routes(pipeline: Pipeline) -> list[Route]:
    """Each route is followed by those of its retry topics."""
    clients = Clients(pipeline)
    routes: list[Route] = []
    for plan in plans_of(pipeline):
        routes += [WritebackRoute(plan, clients, tier) for tier in (None, *plan.tiers)]
        routes.append(OldTiersRoute(plan, clients))
    return routes

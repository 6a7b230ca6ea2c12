"""Makes write-back routes from the configuration."""

from enrich.config import Pipeline
from sync_service.routes import Route
from sync_service.writeback.old_tiers import OldTiersRoute
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients, WritebackRoute


def writeback_routes(pipeline: Pipeline) -> list[Route]:
    """All routes of the section `sync.writeback`, each followed by those of its retry topics."""
    clients = Clients(pipeline)
    routes: list[Route] = []
    for plan in plans_of(pipeline):
        routes += [WritebackRoute(plan, clients, tier) for tier in (None, *plan.tiers)]
        routes.append(OldTiersRoute(plan, clients))
    return routes

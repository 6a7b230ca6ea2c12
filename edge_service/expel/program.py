"""The role `expel`: runs all routes of the section `expel`."""

from edge_service.expel.plan import plans_of
from edge_service.expel.route import Clients, ExpelRoute
from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.service.program import leave, run_routes
from enrich.service.routes import Route
from enrich.service.status import Program


def run(pipeline: Pipeline) -> int:
    run_routes(routes_of(pipeline), Program("expel", pipeline.name, pipeline.pages.expel, "pages.expel"))
    return leave()


def routes_of(pipeline: Pipeline) -> list[Route]:
    """Raises ConfigError if there is none. Opens no connection."""
    plans = plans_of(pipeline)
    if not plans:
        raise ConfigError(f"the pipeline {pipeline.name} has no routes to deliver", next_step="name some under `expel`")
    clients = Clients(pipeline)
    return [ExpelRoute(plan, clients) for plan in plans]

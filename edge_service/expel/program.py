"""The role `expel`: runs all routes of the section `expel`."""

from edge_service.expel.plan import plans_of
from edge_service.expel.route import Clients, ExpelRoute
from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.service.program import leave, run_routes
from enrich.service.status import Program


def run(pipeline: Pipeline) -> int:
    routes = routes_of(pipeline)
    program = Program("expel", pipeline.name, pipeline.pages.expel, "pages.expel")
    run_routes(routes, program, routes[0].clients.close)  # all share them
    return leave()


def routes_of(pipeline: Pipeline) -> list[ExpelRoute]:
    """Raises ConfigError if there is none. Opens no connection."""
    plans = plans_of(pipeline)
    if not plans:
        raise ConfigError(f"the pipeline {pipeline.name} has no routes to deliver", next_step="name some under `expel`")
    clients = Clients(pipeline)
    return [ExpelRoute(plan, clients) for plan in plans]

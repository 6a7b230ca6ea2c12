"""The role `retrier`: forwards what has waited in the retry topics of all routes of the section `expel`."""

from edge_service.retrier.plan import plans_of
from edge_service.retrier.route import Clients, RetryRoute
from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.service.program import leave, run_routes
from enrich.service.status import Program


def run(pipeline: Pipeline) -> int:
    routes = routes_of(pipeline)
    program = Program("retrier", pipeline.name, pipeline.pages.retrier, "pages.retrier")
    run_routes(routes, program, routes[0].close)  # of what all share
    return leave()


def routes_of(pipeline: Pipeline) -> list[RetryRoute]:
    """Raises ConfigError if there is none. Opens no connection."""
    plans = plans_of(pipeline)
    if not plans:
        raise ConfigError(f"the pipeline {pipeline.name} has no routes to deliver", next_step="name some under `expel`")
    clients = Clients(pipeline)
    return [RetryRoute(plan, clients) for plan in plans]

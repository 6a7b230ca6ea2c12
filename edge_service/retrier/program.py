"""The role `retrier`: forwards what has waited in the retry topics of all routes of the section `expel`."""

from edge_service.retrier.plan import plans_of
from edge_service.retrier.route import Clients, RetryRoute
from enrich.base.errors import ConfigError
from enrich.config import Pipeline
from enrich.service.program import leave, run_routes
from enrich.service.routes import Route
from enrich.service.status import Program


def run(pipeline: Pipeline) -> int:
    run_routes(routes_of(pipeline), Program("retrier", pipeline.name, pipeline.pages.retrier, "pages.retrier"))
    return leave()


def routes_of(pipeline: Pipeline) -> list[Route]:
    """Raises ConfigError if there is none. Opens no connection."""
    plans = plans_of(pipeline)
    if not plans:
        raise ConfigError(f"the pipeline {pipeline.name} has no routes to deliver", next_step="name some under `expel`")
    clients = Clients(pipeline)
    return [RetryRoute(plan, clients) for plan in plans]

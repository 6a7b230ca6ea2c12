"""`enrich expel`: the program `edge_service` does the work."""

from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.json_lines import print_json
from enrich.cli.options import ConfigFile
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.services.programs import become_program
from enrich.cli.services.statuses import Program, loaded_with, show_routes

if TYPE_CHECKING:
    from enrich.config import Pipeline
    from enrich.delivery.holds import Hold

_KAFKA_DEADLINE_S = 10.0

app = typer.Typer(no_args_is_help=True, help="Delivers events over HTTP.")


@app.command()
def run(context: typer.Context, config: ConfigFile) -> None:
    """Runs all routes of the section `expel` until it is stopped; on SIGTERM it finishes its requests and commits.

    Example: enrich expel run -c pipeline.yaml
    """
    become_program(context, "edge_service", "expel", "-c", str(config))


@app.command()
def status(config: ConfigFile, json: AsJson = False) -> None:
    """Shows what expel on this host does, route by route; exits with 1 if a route is not running.

    Example: enrich expel status -c pipeline.yaml
    """
    pipeline = loaded_with("expel", config)
    show_routes(Program("expel", pipeline.name, pipeline.pages.expel, "pages.expel"), as_json=json)


Route = Annotated[str, typer.Argument(metavar="ROUTE", help="A route under expel.")]


@app.command()
def hold(
    config: ConfigFile,
    route: Route,
    reason: Annotated[str, typer.Option("--reason", help="Shown wherever the route's status is.")] = "held by hand",
    json: AsJson = False,
) -> None:
    """Stops sending events of a route, wherever it runs, until it is resumed. They wait in their topic.

    Example: enrich expel hold acme --reason "the customer moves" -c pipeline.yaml
    """
    import time

    from enrich.delivery.holds import PERSON, Hold

    _change(config, route, Hold(reason, time.time_ns() // 10**6, PERSON))
    if json:
        print_json({"route": route, "held": True, "reason": reason})
    else:
        typer.echo(f"{route} is on hold: its instances finish their requests and send nothing more within seconds")


@app.command()
def resume(config: ConfigFile, route: Route, json: AsJson = False) -> None:
    """Sends events of a route again that is on hold: by hand, or because its endpoint refused all requests.

    Example: enrich expel resume acme -c pipeline.yaml
    """
    was_held = _change(config, route, None)
    if json:
        print_json({"route": route, "held": False, "was_held": was_held})
    elif was_held:
        typer.echo(f"{route} is resumed: it sends on within 15 s")
    else:
        typer.echo(f"{route} was not on hold")


def _change(config: ConfigFile, route: str, hold: "Hold | None") -> bool:
    """Returns whether the route was on hold before."""
    from enrich.config import load
    from enrich.config.sections.kafka.client_settings import Role
    from enrich.delivery.holds import change, make_holds_topic, read
    from enrich.kafka import Topics, librdkafka_settings, new_admin_client

    pipeline = load(config)
    _require_route(pipeline, route)
    common = librdkafka_settings(pipeline.kafka, Role.common)
    make_holds_topic(Topics(new_admin_client(common), _KAFKA_DEADLINE_S), pipeline.name)
    was_held = route in read(common, pipeline.name)
    change(librdkafka_settings(pipeline.kafka, Role.producer), pipeline.name, route, hold)
    return was_held


def _require_route(pipeline: "Pipeline", route: str) -> None:
    from enrich.base.errors import ConfigError
    from enrich.config.messages.words import hint

    if route not in pipeline.expel:
        raise ConfigError(
            f"there is no route `{route}` under expel{hint(route, [*pipeline.expel], 'routes')}",
            next_step=f"choose from {', '.join(pipeline.expel)}" if pipeline.expel else "name some under `expel`",
        )

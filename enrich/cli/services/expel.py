"""`enrich expel`: the program `edge_service` does the work."""

import typer

from enrich.cli.options import ConfigFile
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.services.programs import become_program
from enrich.cli.services.statuses import Program, show_routes

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
    from enrich.config import load

    pages = load(config).pages
    show_routes(Program("expel", pages.expel, "pages.expel"), as_json=json)

"""`enrich ingest`: the program `edge_service` does the work."""

import typer

from enrich.cli.options import ConfigFile
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.services.programs import become_program
from enrich.cli.services.statuses import Program, loaded_with, show_routes

app = typer.Typer(no_args_is_help=True, help="Takes events over HTTP.")


@app.command()
def run(context: typer.Context, config: ConfigFile) -> None:
    """Takes events over HTTP and writes them to topics until it is stopped; on SIGTERM it answers what it has.

    Example: enrich ingest run -c pipeline.yaml
    """
    become_program(context, "edge_service", "ingest", "-c", str(config))


@app.command()
def status(config: ConfigFile, json: AsJson = False) -> None:
    """Shows what ingest on this host does, entry by entry; exits with 1 if an entry is not running.

    Example: enrich ingest status -c pipeline.yaml
    """
    pipeline = loaded_with("ingest", config)
    show_routes(Program("ingest", pipeline.name, pipeline.pages.ingest, "pages.ingest"), as_json=json)

"""`enrich retrier`: the program `edge_service` does the work."""

import typer

from enrich.cli.options import ConfigFile
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.services.programs import become_program
from enrich.cli.services.statuses import Program, show_routes

app = typer.Typer(no_args_is_help=True, help="Forwards events that wait to be delivered again.")


@app.command()
def run(context: typer.Context, config: ConfigFile) -> None:
    """Forwards what has waited in the retry topics of the section `expel` until it is stopped.

    Example: enrich retrier run -c pipeline.yaml
    """
    become_program(context, "edge_service", "retrier", "-c", str(config))


@app.command()
def status(config: ConfigFile, json: AsJson = False) -> None:
    """Shows what the retrier on this host does, topic by topic; exits with 1 if one is not running.

    Example: enrich retrier status -c pipeline.yaml
    """
    from enrich.config import load

    pages = load(config).pages
    show_routes(Program("retrier", pages.retrier, "pages.retrier"), as_json=json)

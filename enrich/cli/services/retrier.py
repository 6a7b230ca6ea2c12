"""`enrich retrier`: the program `edge_service` does the work."""

from typing import Any

import typer

from enrich.cli.options import ConfigFile
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.services.programs import become_program
from enrich.cli.services.statuses import COLORS, Program, loaded_with, note_of, show_routes

app = typer.Typer(no_args_is_help=True, help="Forwards events that wait to be delivered again.")


@app.command()
def run(context: typer.Context, config: ConfigFile) -> None:
    """Forwards what has waited in the retry topics of the section `expel` until it is stopped.

    Example: enrich retrier run -c pipeline.yaml
    """
    become_program(context, "edge_service", "retrier", "-c", str(config))


@app.command()
def status(config: ConfigFile, json: AsJson = False) -> None:
    """Shows what waits for which pause, and since when it is due, on this host; exits with 1 if a route is not running.

    Example: enrich retrier status -c pipeline.yaml
    """
    pipeline = loaded_with("expel", config)
    show_routes(
        Program("retrier", pipeline.name, pipeline.pages.retrier, "pages.retrier"), as_json=json, show=_print_pauses
    )


def _print_pauses(routes: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    table = Table(Column("route", no_wrap=True), "pause", "state", "waiting", "due", "for", "forwarded", "note")
    for route in routes:
        shown = route["details"].get("pauses") or [{}]
        for number, pause in enumerate(shown):
            waiting = pause.get("waiting")
            table.add_row(
                escape(route["name"]) if number == 0 else "",
                pause.get("pause", ""),
                f"[{COLORS.get(route['state'], 'yellow')}]{route['state']}[/]" if number == 0 else "",
                "" if waiting is None else f"{waiting:,}",
                f"{pause.get('due', 0):,}",
                f"{pause.get('oldest_due_s', 0):,.1f} s" if pause.get("due") else "",
                f"{pause.get('forwarded', 0):,}",
                escape(note_of(route)) if number == 0 else "",
            )
    Console(highlight=False).print(table)

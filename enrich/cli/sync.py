"""`enrich sync`: moves rows between topics and external stores. The program `sync_service` does the work."""

from typing import Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.cli.options import ConfigFile
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.programs import become_program

app = typer.Typer(no_args_is_help=True, help="Rows between topics and external stores, in both directions.")

_PROGRAM = "sync_service"
_ANSWER_S = 5.0


@app.command()
def run(context: typer.Context, config: ConfigFile) -> None:
    """Runs all routes of the section `sync` until it is stopped; on SIGTERM it finishes its work and commits.

    Example: enrich sync run -c pipeline.yaml
    """
    become_program(context, _PROGRAM, "run", "-c", str(config))


@app.command()
def reconcile(
    context: typer.Context,
    config: ConfigFile,
    routes: Annotated[list[str] | None, typer.Argument(metavar="[ROUTE]...", help="Without any, all.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Write what differs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also if rows would be deleted.")] = False,
    raise_generation: Annotated[
        bool, typer.Option("--raise-generation", help="With --repair: write all rows again, with newer versions.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Compares topics with the stores they are written to; exits with 1 if there is a difference that was not repaired.

    Example: enrich sync reconcile users_to_redis --repair -c pipeline.yaml
    """
    flags = {"repair": repair, "yes": yes, "raise_generation": raise_generation, "json": json}
    become_program(context, _PROGRAM, "reconcile", *(routes or []), "-c", str(config), **flags)


@app.command()
def confirm(
    context: typer.Context,
    config: ConfigFile,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Sources that are held.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without it, only report how many.")] = False,
    json: AsJson = False,
) -> None:
    """Allows a source to delete, once, as many rows as it wants to. Run it on the host of the service's state_dir.

    Example: enrich sync confirm users_from_pg --yes -c pipeline.yaml
    """
    become_program(context, _PROGRAM, "confirm", *sources, "-c", str(config), yes=yes, json=json)


Routes = Annotated[list[str], typer.Argument(metavar="ROUTE...", help="Routes under sync.writeback.")]


@app.command()
def pause(context: typer.Context, config: ConfigFile, routes: Routes, json: AsJson = False) -> None:
    """Pauses write-back routes, wherever they run, until they are resumed.

    Example: enrich sync pause users_to_pg -c pipeline.yaml
    """
    become_program(context, _PROGRAM, "pause", *routes, "-c", str(config), json=json)


@app.command()
def resume(context: typer.Context, config: ConfigFile, routes: Routes, json: AsJson = False) -> None:
    """Resumes paused routes where they stopped.

    Example: enrich sync resume users_to_pg -c pipeline.yaml
    """
    become_program(context, _PROGRAM, "resume", *routes, "-c", str(config), json=json)


@app.command()
def resync(context: typer.Context, config: ConfigFile, routes: Routes, json: AsJson = False) -> None:
    """Lets write-back routes read their topics from the start and write the rows that the store lacks or has older.

    Example: enrich sync resync users_to_pg -c pipeline.yaml
    """
    become_program(context, _PROGRAM, "resync", *routes, "-c", str(config), json=json)


@app.command()
def status(config: ConfigFile, json: AsJson = False) -> None:
    """Shows what the service on this host does, route by route; exits with 1 if a route is not running.

    Example: enrich sync status -c pipeline.yaml
    """
    from enrich.base.errors import ConfigError
    from enrich.config import load

    pipeline = load(config)
    if pipeline.sync is None:
        raise ConfigError(f"the pipeline {pipeline.name} has no section `sync`", where=str(config))
    routes = _ask(pipeline.sync.listen)["routes"]
    if json:
        for route in routes:
            print_json(route)
    else:
        _print_people(routes)
    if any(route["state"] != "running" for route in routes):
        raise typer.Exit(DIFFERENCE)


def _ask(listen: str) -> dict[str, Any]:
    import http.client
    import json

    from enrich.base.errors import ConfigError, Unreachable

    host, _, port = listen.rpartition(":")
    if port == "0":
        raise ConfigError(
            "the port 0 stands for any free one: nobody can ask there",
            where="sync.listen",
            next_step="give the page a port, or ask where the service's log says that it listens",
        )
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - compared, not listened on
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_ANSWER_S)
    try:
        connection.request("GET", "/status")
        answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unreachable(
            f"no sync service answers: {error}",
            where=listen,
            next_step="start it with `enrich sync run -c FILE`, or ask on the host where it runs",
        ) from error
    finally:
        connection.close()
    return dict(answer)


def _print_people(routes: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    noted = ""
    table = Table(Column("route", no_wrap=True), "state", "lag", "rows/s", "so far", "note")
    for route in routes:
        color = {"running": "green", "stopped": "red", "held": "red"}.get(route["state"], "yellow")
        counters = ", ".join(
            f"{count:,} {name.replace('_', ' ')}" for name, count in route["counters"].items() if count
        )
        note = "; ".join([*filter(None, [route["last_error"]]), *route["details"].get("warnings", [])])
        table.add_row(
            escape(route["name"]),
            f"[{color}]{route['state']}[/]",
            "" if route["lag"] is None else f"{route['lag']:,}",
            f"{route['rows_per_s']:,.0f}",
            escape(counters),
            "as above" if note and note == noted else escape(note),
        )
        noted = note
    Console(highlight=False).print(table)

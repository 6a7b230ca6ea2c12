"""`enrich sync`: moves rows between topics and external stores. The program `sync_service` does the work."""

from typing import Annotated

import typer

from enrich.cli.options import ConfigFile
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.services.programs import become_program
from enrich.cli.services.statuses import Program, loaded_with, show_routes

app = typer.Typer(no_args_is_help=True, help="Rows between topics and external stores, in both directions.")

_PROGRAM = "sync_service"


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
    routes: Annotated[list[str] | None, typer.Argument(metavar="ROUTE", help="Without any, all.")] = None,
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
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Sources that are held; of many tables SOURCE/SCHEMA.TABLE."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without it, only report how many.")] = False,
    json: AsJson = False,
) -> None:
    """Allows a source to delete, once, as many rows as it wants to. Run it on the host of the service's state_dir.

    Example: enrich sync confirm users_from_pg --yes -c pipeline.yaml
    """
    become_program(context, _PROGRAM, "confirm", *sources, "-c", str(config), yes=yes, json=json)


Routes = Annotated[list[str], typer.Argument(metavar="ROUTE", help="Routes under sync.writeback.")]


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
    pipeline = loaded_with("sync", config)
    assert pipeline.sync is not None  # noqa: S101 - it is there
    show_routes(Program("sync", pipeline.name, pipeline.sync.listen, "sync.listen"), as_json=json)

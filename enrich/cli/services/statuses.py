"""What `status` commands share: they ask the page of a program that runs on this host, and show its routes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from enrich.base.errors import ConfigError, Unreachable
from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.base.printable import visible
from enrich.service.asking import status_at
from enrich.service.routes import RouteKind

if TYPE_CHECKING:
    from enrich.config import Pipeline

COLORS = {"running": "green", "stopped": "red", "held": "red"}
"""By state; all others are yellow."""
_ANSWER_S = 5.0
_RUN_BY = {
    RouteKind.writeback: "sync",
    RouteKind.source: "sync",
    RouteKind.expel: "expel",
    RouteKind.retry: "retrier",
    RouteKind.ingest: "ingest",
}
"""The program that has routes of a kind, as in `enrich NAME run`."""


@dataclass(frozen=True)
class Program:
    """A program with a page."""

    name: str
    """As in `enrich NAME run`."""
    pipeline: str
    listen: str
    listen_key: str
    """The key of the configuration that the address is from."""


def loaded_with(section: str, config: Path, next_step: str | None = None) -> "Pipeline":
    """The pipeline. Raises ConfigError if it has nothing in this section: then nobody can be asked."""
    from enrich.config import load

    pipeline = load(config)
    if not getattr(pipeline, section):
        what = f"the pipeline {pipeline.name} has no section `{section}`"
        raise ConfigError(what, where=str(config), next_step=next_step)
    return pipeline


def show_routes(program: Program, *, as_json: bool, show: Callable[[list[dict[str, Any]]], None] | None = None) -> None:
    """Exits with 1 if a route is not running. Raises Unreachable if the program does not answer, or another one does.
    `show`: shows routes to people otherwise than as one line each."""
    routes = _routes(program)
    if as_json:
        for route in routes:
            print_json(route)
    else:
        (show or _print_people)(routes)
    if any(route["state"] != "running" for route in routes):
        raise typer.Exit(DIFFERENCE)


def _routes(program: Program) -> list[dict[str, Any]]:
    """What its page says of them."""
    if program.listen.endswith(":0"):
        raise ConfigError(
            "the port 0 stands for any free one: nobody can ask there",
            where=program.listen_key,
            next_step="give the page a port, or ask where the program's log says that it listens",
        )
    try:
        routes = status_at(program.listen, program.pipeline, _ANSWER_S).get("routes")
        if not isinstance(routes, list) or not all(isinstance(route, dict) for route in routes):
            raise ValueError("its status names no routes")
        _require_of(program, routes)
    except OSError as error:
        raise Unreachable(
            f"nothing answers: {error.strerror or error}",
            where=program.listen,
            next_step=f"start it with `enrich {program.name} run -c FILE`, or ask on the host where it runs",
        ) from error
    except ValueError as error:
        raise Unreachable(
            f"another program than {program.name} answers: {error}",
            where=program.listen,
            next_step=f"stop that program, or choose another address under {program.listen_key}",
        ) from error
    return routes


def _require_of(program: Program, routes: list[dict[str, Any]]) -> None:
    """Programs of one pipeline may have each other's address."""
    for route in routes:
        other = _RUN_BY.get(route.get("kind", ""))
        if other not in (None, program.name):
            raise ValueError(f"it is {other} of the same pipeline")


def note_of(route: dict[str, Any]) -> str:
    """What people should know of it."""
    return "; ".join([*filter(None, [route["last_error"]]), *route["details"].get("warnings", [])])


def _print_people(routes: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    noted = ""
    table = Table(Column("route", no_wrap=True), "state", "lag", "rows/s", "so far", "note")
    for route in routes:
        color = COLORS.get(route["state"], "yellow")
        counters = ", ".join(
            f"{count:,} {name.replace('_', ' ')}" for name, count in route["counters"].items() if count
        )
        note = note_of(route)
        table.add_row(
            escape(route["name"]),
            f"[{color}]{route['state']}[/]",
            "" if route["lag"] is None else f"{route['lag']:,}",
            f"{route['rows_per_s']:,.0f}",
            escape(counters),
            "as above" if note and note == noted else escape(visible(note)),
        )
        noted = note
    Console(highlight=False).print(table)

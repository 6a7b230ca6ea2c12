"""`enrich demo`: the product in a minute, on servers of its own that are gone afterwards."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.cli.output import print_json

if TYPE_CHECKING:
    from enrich.demo import Step


def demo(
    json: Annotated[bool, typer.Option("--json", help="One JSON object a looked-up key.")] = False,
) -> None:
    """See it work: a table is published, updated, deleted and read back, on a real broker.

    Example: enrich demo
    """
    from enrich.demo import steps
    from enrich.dev import temporary_stack
    from enrich.kafka.clients import Connection

    with temporary_stack(quiet=json) as addresses:
        connection: Connection = {"bootstrap.servers": addresses.bootstrap_servers}
        for number, step in enumerate(steps(connection), start=1):
            if json:
                _print_machine(number, step)
            else:
                _print_people(number, step)
    if not json:
        typer.echo(
            "\nThe demo's servers are gone again. Next: enrich dev up, enrich config check -c examples/plays.yaml"
        )


def _print_machine(number: int, step: "Step") -> None:
    for answer in step.answers:
        print_json({"step": number, "title": step.title, "complete_through": step.complete_through_ms, **vars(answer)})


def _print_people(number: int, step: "Step") -> None:
    from rich.console import Console
    from rich.table import Table

    through = datetime.fromtimestamp(step.complete_through_ms / 1000)
    console = Console(highlight=False)
    console.print(f"\n[bold]{number}. {step.title}[/]")
    console.print(f"[dim]complete through {through:%H:%M:%S}.{through.microsecond // 1000:03d}[/]")
    table = Table(min_width=72)
    for name in ("key", "status", "plan", "region", "partition/offset"):
        table.add_column(name)
    for answer in step.answers:
        value = answer.value or {}
        place = "" if answer.offset is None else f"{answer.partition}/{answer.offset}"
        style = {"hit": "green", "deleted": "yellow", "miss": "dim", "null_key": "dim"}.get(answer.status, "red")
        table.add_row(
            answer.key or "null",
            f"[{style}]{answer.status}[/]",
            str(value.get("plan") or ""),
            str(value.get("region") or ""),
            place,
        )
    console.print(table)

"""`enrich doctor`: checks whether everything is as it should be, and if not, says what to do."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json

if TYPE_CHECKING:
    from enrich.admin.doctor import Verdict

_LONGEST_S = 3600.0
"""No socket takes a time-out of any length."""
_SIGNS = {"good": "[green]ok[/]", "warning": "[yellow]warning[/]", "bad": "[red]bad[/]"}


def doctor(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="The pipeline's configuration file; without it, less is checked."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per check.")] = False,
    deadline: Annotated[
        float, typer.Option("--deadline", metavar="SECONDS", help="Seconds to wait for each server.", min=0.1)
    ] = 10.0,
) -> None:
    """Checks everything that is easily wrong, and changes nothing; exits with 1 if something is bad.

    Example: enrich doctor -c pipeline.yaml
    """
    bad = 0
    for verdict in _verdicts(config, min(deadline, _LONGEST_S)):
        bad += verdict.level == "bad"
        if json:
            print_json(
                {
                    "check": verdict.check,
                    "level": verdict.level.value,
                    "what": verdict.what,
                    "next": verdict.next_step,
                }
            )
        else:
            _show(verdict)
    if bad:
        raise typer.Exit(DIFFERENCE)


def _verdicts(config: Path | None, deadline: float) -> "Iterator[Verdict]":
    from enrich.admin.doctor.endpoints import of_endpoints
    from enrich.admin.doctor.logs import of_logs
    from enrich.admin.doctor.machine import of_agents, of_machine, of_memory, of_state_dir
    from enrich.admin.doctor.releases import of_tables
    from enrich.admin.doctor.senders import of_senders
    from enrich.admin.doctor.servers import of_kafka, of_redis, of_registry
    from enrich.config import load

    pipeline = None if config is None else load(config)
    yield from of_machine()
    if pipeline is None:
        return
    yield of_memory(pipeline)
    yield from of_state_dir(pipeline)
    yield from of_agents(pipeline)
    yield from of_kafka(pipeline, deadline)
    yield from of_redis(pipeline)
    yield from of_tables(pipeline, deadline)
    yield from of_registry(pipeline, deadline)
    yield from of_senders(pipeline, deadline)
    yield from of_endpoints(pipeline, deadline)
    yield from of_logs(pipeline)


def _show(verdict: "Verdict") -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{_SIGNS[verdict.level]} [bold]{verdict.check}[/]: {escape(verdict.what)}")
    if verdict.next_step is not None:
        console.print(f"   next: {escape(verdict.next_step)}")

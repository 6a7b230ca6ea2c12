"""`enrich run`: starts a stage. The program `jobs/enrich_stage.py` does the work."""

from typing import Annotated

import typer

from enrich.cli.options import ConfigFile
from enrich.cli.services.programs import become_program


def run(
    context: typer.Context,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="The stage, by its name under `stages`.")],
    config: ConfigFile,
    master: Annotated[str, typer.Option(help="Spark's master: local[*], spark://host:7077, yarn, ...")] = "local[*,4]",
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="Without a checkpoint, where to begin: earliest, latest, group, group:NAME, a time."
        ),
    ] = None,
    new_pin: Annotated[
        bool,
        typer.Option(
            "--new-pin",
            help="With replay: deterministic, if the pin of the batch under way has expired: accept other answers.",
        ),
    ] = False,
    accept_new_source: Annotated[
        bool,
        typer.Option(
            "--accept-new-source",
            help="If the topic of the events was recreated with the same events at the same offsets: continue in it.",
        ),
    ] = False,
    conf: Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting for Spark.")] = None,
) -> None:
    """Runs a stage until it is stopped; SIGTERM and Ctrl-C let it finish the batch under way.

    Example: enrich run enrich -c pipeline.yaml
    """
    words = [stage, "-c", str(config), "--master", master, *([] if start is None else ["--from", start])]
    words += [word for each in conf or [] for word in ("--conf", each)]
    flags = {"new_pin": new_pin, "accept_new_source": accept_new_source}
    become_program(context, "jobs.enrich_stage", *words, **flags)

"""`enrich run`: starts a stage. The program `jobs/enrich_stage.py` does the work."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from enrich.base.logs import LogLevel

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The pipeline's configuration file.")]


def run(
    context: typer.Context,
    stage: Annotated[str, typer.Argument(help="The stage, by its name under `stages`.")],
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
    given = [*([] if start is None else ["--from", start]), *(["--new-pin"] if new_pin else [])]
    given += ["--accept-new-source"] if accept_new_source else []
    settings = [word for each in conf or [] for word in ("--conf", each)]
    _become_program(context, stage, "-c", str(config), "--master", master, *given, *settings)


def _become_program(context: typer.Context, *words: str) -> NoReturn:
    """This process becomes the stage's driver, so that it gets the signals and its exit code is the command's."""
    # Not by spark-submit, whose JVM would be the parent: a signal ends the JVM before Python gets it (ADR 0020).
    given = context.find_root().params
    options = ["--log-format", str(given["log_format"].value)]
    if given["log_level"] is not LogLevel.warning:  # the commands' default, too quiet for a stage
        options += ["--log-level", str(given["log_level"].value)]
    os.execv(sys.executable, [sys.executable, "-m", "jobs.enrich_stage", *words, *options])  # noqa: S606 - our own

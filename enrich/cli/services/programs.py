"""Commands that only start a program: `enrich run`, `enrich sync ...`."""

import os
import sys
from typing import NoReturn

import typer

from enrich.base.logs import LogLevel


def become_program(context: typer.Context, module: str, *words: str, **flags: bool) -> NoReturn:
    """This process becomes the program, so that it gets the signals and its exit code is the command's.

    `flags`: those that are set are given as options, `new_pin` as --new-pin.
    """
    # For a stage not by spark-submit, whose JVM would be the parent: a signal ends it before Python gets it (ADR 0020).
    given = context.find_root().params
    options = [f"--{name.replace('_', '-')}" for name, wanted in flags.items() if wanted]
    options += ["--log-format", str(given["log_format"].value)]
    if given["log_level"] is not LogLevel.warning:  # the commands' default, too quiet for a program that keeps running
        options += ["--log-level", str(given["log_level"].value)]
    os.execv(sys.executable, [sys.executable, "-m", module, *words, *options])  # noqa: S606 - our own program

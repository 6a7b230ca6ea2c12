"""The command as its users type it, and what it says to machines: in this process, or in one of its own."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from enrich.base.errors import EnrichError
from enrich.base.exits import exit_code
from enrich.cli.main import app
from tests.support.spark.quick_jvm import quick_jvm


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def enrich(*arguments: object) -> Done:
    """Runs a command here, which saves the start of an interpreter. Nobody is at its terminal."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    try:
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)])
    finally:
        root.handlers = handlers
        root.setLevel(level)
    if isinstance(result.exception, EnrichError):
        # As `main` does it.
        told = "\n".join(filter(None, (result.exception.what, result.exception.where, result.exception.next_step)))
        return Done(exit_code(result.exception), result.stdout, f"{result.stderr}{told}\n")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


@contextmanager
def enrich_process(*arguments: object) -> "Iterator[subprocess.Popen[str]]":
    """The command in a process of its own, which a test can signal; killed at the end, if it still runs."""
    command = [sys.executable, "-m", "enrich", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200", "SPARK_SUBMIT_OPTS": quick_jvm()}
    pipe = subprocess.PIPE
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "env": environment}
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(done: Done) -> list[dict[str, Any]]:
    """The objects on stdout. Fails with what stands on stderr when there is none that can be read."""
    try:
        return [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError:
        raise AssertionError(f"{done.stdout}\n{done.stderr}") from None

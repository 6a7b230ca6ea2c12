"""The program's top: builds the command tree, runs it, and turns every error into a message and an exit code."""

import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Annotated, NoReturn

import typer

from enrich.base.exits import DONE, outcome
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.cli import config, demo, dev, doctor, init, masks, sink
from enrich.cli.help import Root
from enrich.cli.rejected import dlq, quarantine
from enrich.cli.services import agent, expel, ingest, observe, rate, retrier, sync
from enrich.cli.stage import package, run, stop
from enrich.cli.table import changes as table_changes
from enrich.cli.table import snapshots as table_snapshots
from enrich.cli.table import stats as table_stats
from enrich.cli.table import table
from enrich.cli.topics import moves, topics

app = typer.Typer(
    name="enrich",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Enrich Kafka streams on Spark from local state.",
)
_FIRST, _BEFORE, _RUN = "A first look", "Before you deploy", "Run"
_TABLES, _REJECTED = "Topics and tables", "What could not be processed"

app.command("demo", rich_help_panel=_FIRST)(demo.demo)
app.command("init", rich_help_panel=_FIRST)(init.init)
app.add_typer(dev.app, name="dev", rich_help_panel=_FIRST)
app.command("doctor", rich_help_panel=_BEFORE)(doctor.doctor)
app.command("package", rich_help_panel=_BEFORE)(package.package)
app.add_typer(config.app, name="config", rich_help_panel=_BEFORE)
app.add_typer(masks.app, name="masks", rich_help_panel=_BEFORE)
app.command("run", rich_help_panel=_RUN)(run.run)
app.command("stop", rich_help_panel=_RUN)(stop.stop)
app.add_typer(agent.app, name="agent", rich_help_panel=_RUN)
app.add_typer(sync.app, name="sync", rich_help_panel=_RUN)
app.add_typer(ingest.app, name="ingest", rich_help_panel=_RUN)
app.add_typer(expel.app, name="expel", rich_help_panel=_RUN)
app.add_typer(retrier.app, name="retrier", rich_help_panel=_RUN)
app.add_typer(observe.app, name="observe", rich_help_panel=_RUN)
app.add_typer(rate.app, name="rate", rich_help_panel=_RUN)
app.add_typer(topics.app, name="topics", rich_help_panel=_TABLES)
app.add_typer(table.app, name="table", rich_help_panel=_TABLES)
app.add_typer(dlq.app, name="dlq", rich_help_panel=_REJECTED)
app.add_typer(quarantine.app, name="quarantine", rich_help_panel=_REJECTED)
sink.add_commands(dev.app)
moves.add_commands(topics.app)
table_changes.add_commands(table.app)
table_snapshots.add_commands(table.app)
table_stats.add_commands(table.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"enrich {version('enrich')}")
        raise typer.Exit


@app.callback()
def common_options(
    log_format: Annotated[LogFormat, typer.Option(help="Format of log lines on stderr.")] = LogFormat.text,
    log_level: Annotated[LogLevel, typer.Option(help="Lowest level of the lines that are shown.")] = LogLevel.warning,
    version: Annotated[  # noqa: ARG001 - typer calls _print_version for it
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    setup_logs(log_format, log_level)


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the signature of a handler
    # SIGTERM unwinds the stack like Ctrl-C, so that a command stops the processes that it started.
    raise SystemExit(128 + signum)


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, _terminate)
    # What a terminal's encoding lacks is shown as a question mark, and ends no command. (JSON escapes it.)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    sys.exit(outcome(_run))


def _run() -> int:
    stdout, file = sys.stdout, _stdout_file()
    try:
        app()
    except SystemExit:
        # Once nobody reads it typer replaces the object, and rich what is behind it, and both end with 1: a difference.
        if sys.stdout is not stdout or _stdout_file() != file:
            raise SystemExit(128 + signal.SIGPIPE) from None
        raise
    return DONE


def _stdout_file() -> tuple[int, int] | None:
    """Which one it is. None for what is no file."""
    with suppress(OSError, ValueError, AttributeError):
        found = os.fstat(sys.stdout.fileno())
        return found.st_dev, found.st_ino
    return None

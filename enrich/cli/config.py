"""`enrich config`: checks a configuration file, shows what it means, and prints the schema of such files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.exits import USAGE
from enrich.base.json_lines import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from enrich.config import ConfigProblems

app = typer.Typer(no_args_is_help=True, help="Check, show and describe the configuration file.")

ConfigFile = Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The pipeline's YAML file.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line, for machines.")]


@app.command()
def check(config: ConfigFile, as_json: AsJson = False) -> None:
    """Reports everything that is wrong with a configuration file; exits with 2 if something is.

    Connects to nothing. Example: enrich config check -c examples/plays.yaml
    """
    from enrich.base.errors import ConfigError
    from enrich.config import ConfigProblems, load

    try:
        pipeline = load(config)
    except ConfigProblems as found:
        if not as_json:
            _print_problems(found)
        for problem in found.problems if as_json else ():
            print_json(problem.as_json())
        raise typer.Exit(USAGE) from None
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"file": str(config), "line": None, "column": None, "key": "", "message": error.what})
        raise typer.Exit(USAGE) from None
    tables, stages = len(pipeline.tables), len(pipeline.stages)
    if as_json:
        print_json({"ok": True, "file": str(config), "pipeline": pipeline.name, "tables": tables, "stages": stages})
        return
    counts = f"{_count(tables, 'table')}, {_count(stages, 'stage')}"
    if pipeline.sync is not None:
        routes = len(pipeline.sync.writeback) + len(pipeline.sync.sources)
        counts += f", {_count(routes, 'route')} of sync"
    _console().print(f"[green]good:[/] {_plain(str(config))}, pipeline [bold]{pipeline.name}[/], {counts}")


@app.command()
def show(config: ConfigFile, as_json: AsJson = False) -> None:
    """Shows what a configuration file means: variables replaced, defaults filled in, passwords masked.

    Example: enrich config show -c examples/plays.yaml
    """
    from enrich.config import load
    from enrich.config.show import as_data, as_yaml

    pipeline = load(config)
    if as_json:
        print_json(as_data(pipeline))
        return
    text, console = as_yaml(pipeline), _console()
    if not console.is_terminal:
        typer.echo(text, nl=False)
        return
    from rich.syntax import Syntax

    # Printed as text: rich cuts a Syntax object at the width of the terminal.
    console.print(Syntax("", "yaml", theme="ansi_dark", background_color="default").highlight(text), end="")


@app.command()
def schema() -> None:
    """Prints the JSON Schema of the configuration file, for completion and checks in editors.

    Example: enrich config schema > pipeline.schema.json
    """
    import json

    from enrich.config.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


def _print_problems(found: "ConfigProblems") -> None:
    console = _console()
    for problem in found.problems:
        key = f"[cyan]{_plain(problem.key)}[/]: " if problem.key else ""
        console.print(f"[bold]{_plain(problem.position)}[/]: {key}{_plain(problem.message)}")
    console.print(f"[red]{_count(len(found.problems), 'problem')}[/]")


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Escapes text from a file, which must not be read as rich's markup."""
    from rich.markup import escape

    return escape(text)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

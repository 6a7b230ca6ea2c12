"""Whether a command line that stands on a page or in a manifest is one that `enrich` takes."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import typer.main

from enrich.cli.main import app


def typed_problem(words: Sequence[str]) -> str | None:
    """`words`: what follows `enrich`; `up|down` stands for both. Values of options and arguments are not looked at, nor
    that all are there."""
    command = _enrich()
    rest = iter(words)
    for word in rest:
        if word.startswith("-") and word != "-":
            name, is_joined, _ = word.partition("=")
            options = {text: option for option in command.params for text in (*option.opts, *option.secondary_opts)}
            if name == "--help":
                return None
            if name not in options:
                return f"{command.name} has no option {name}"
            if not is_joined and not getattr(options[name], "is_flag", False):
                next(rest, None)
        elif hasattr(command, "commands"):
            for name in word.split("|"):
                if name not in command.commands:
                    return f"{command.name} has no command {name}"
            command = command.commands[word.partition("|")[0]]
    return None


@cache
def every_option() -> frozenset[str]:
    """Of any command."""
    found, commands = {"--help"}, [_enrich()]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        found |= {text for option in command.params for text in (*option.opts, *option.secondary_opts)}
    return frozenset(found)


@cache
def _enrich() -> Any:
    return typer.main.get_command(app)

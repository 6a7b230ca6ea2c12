"""Makes the page of all commands from their help: `python -m enrich.cli.reference > docs/commands.md`."""

import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from enrich.cli.main import app

_HEAD = """# Commands

Made from `--help` by `python -m enrich.cli.reference`; a test keeps it so. Exit codes: 0 done,
1 a difference was found, 2 usage or configuration, 3 a server did not answer in time, 4 refused since something would
be lost, 5 anything else.
"""


def page() -> str:
    return _HEAD + "".join(_of_group(typer.main.get_command(app), "enrich"))


def examples() -> dict[str, str | None]:
    """For each command the example in its help."""
    return {name: _example(command) for name, command in _commands(typer.main.get_command(app), "enrich")}


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for child, inner in children.items():
        if not inner.hidden:
            yield from _commands(inner, f"{name} {child}")


def _of_group(group: Any, name: str) -> Iterator[str]:
    for child, command in group.commands.items():
        if command.hidden:
            continue
        whole = f"{name} {child}"
        if hasattr(command, "commands"):
            yield f"\n## {whole}\n\n{_text(command)}\n"
            yield from _of_group(command, whole)
        else:
            yield from _of_command(command, whole)


def _of_command(command: Any, name: str) -> Iterator[str]:
    level = "##" if name.count(" ") == 1 else "###"
    arguments = [part for part in command.params if part.param_type_name == "argument"]
    options = [part for part in command.params if part.param_type_name == "option" and part.name != "help"]
    shown = "".join(f" {_metavar(part)}" for part in arguments)
    yield f"\n{level} {name}{shown}\n\n{_text(command)}\n"
    example = _example(command)
    if example is not None:
        yield f"\n    {example}\n"
    if arguments or options:
        yield "\n| | |\n|---|---|\n"
    for part in (*arguments, *options):
        names = f"`{_metavar(part)}`" if part in arguments else ", ".join(f"`{name}`" for name in part.opts)
        needed = " Required." if part.required and part in options else ""
        yield f"| {names} | {(part.help or '').strip()}{needed}{_default(part)} |\n"


def _metavar(part: Any) -> str:
    name = str(part.metavar or part.name.upper())
    return (name if part.required else f"[{name}]") + ("..." if part.nargs != 1 else "")


def _default(part: Any) -> str:
    value = part.default
    if callable(value) or value in (None, False, "", ()) or part.required:
        return ""
    return f" Default: {value:g}." if isinstance(value, float) else f" Default: {value}."


def _text(command: Any) -> str:
    text = (command.help or "").split("Example:")[0]
    return " ".join(text.split())


def _example(command: Any) -> str | None:
    _, found, example = (command.help or "").partition("Example:")
    return " ".join(example.split()) if found else None


if __name__ == "__main__":
    sys.stdout.write(page())

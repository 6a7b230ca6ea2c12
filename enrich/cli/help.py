"""The root of the command tree. Its help says of options what people type, and not how Python keeps it."""

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperGroup


class Root(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for command in self.commands.values():
            _tidy(command)
        self.help = _joined(self.help)

    def get_params(self, ctx: Any) -> Any:
        # Not before: typer adds the options of completion later.
        found = super().get_params(ctx)
        _without_types(found)
        return found


def _tidy(command: Any) -> None:
    _without_types(command.get_params(typer.Context(command, help_option_names=["-h", "--help"])))
    command.help = _joined(command.help)
    for child in getattr(command, "commands", {}).values():
        _tidy(child)


def _without_types(params: Iterable[Any]) -> None:
    """A flag takes no value: by itself typer shows `--json <bool>`."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""


def _joined(text: str | None) -> str | None:
    """Paragraphs of one line each: rich breaks them where the source does, and again at the edge of the terminal."""
    return None if text is None else "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))

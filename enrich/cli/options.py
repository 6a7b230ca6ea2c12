"""Options and arguments that several commands have."""

from pathlib import Path
from typing import Annotated, TypeVar

import typer

KAFKA_S, READY_S = 30.0, 300.0
_Text = TypeVar("_Text", str, list[str])

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The pipeline's configuration file.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
KafkaDeadline = Annotated[
    float, typer.Option("--deadline", metavar="SECONDS", help="Seconds to wait for the brokers.", min=0.1)
]
ReadyDeadline = Annotated[
    float, typer.Option("--deadline", metavar="SECONDS", help="Seconds to wait until the table is ready.", min=0)
]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table of the configuration file.")]
Purges = Annotated[bool, typer.Option("--yes", help="Required: the command does not ask.")]


def require_utf8(given: _Text) -> _Text:
    """A callback of arguments that become bytes of records. Raises ConfigError for bytes that are no text: Python hands
    them on as characters that cannot be written."""
    from enrich.base.errors import ConfigError

    for text in [given] if isinstance(given, str) else given:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise ConfigError(f"`{shown}` is not UTF-8", next_step="check the terminal's encoding") from None
    return given


def seconds_of(text: str, option: str) -> float:
    """Of a duration that was given as an option. Raises ConfigError with the option."""
    from enrich.base.errors import ConfigError
    from enrich.config.messages.words import Wrong
    from enrich.config.types.quantities import parse_duration

    try:
        return parse_duration(text).total_seconds()
    except Wrong as error:
        raise ConfigError(str(error), where=option) from error

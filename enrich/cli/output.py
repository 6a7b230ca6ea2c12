"""What a command shows: tables and colour for people, one JSON object a line for machines, errors on stderr."""

import base64
import gc
import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import typer

from enrich.errors import ConfigError, EnrichError, Unreachable, WouldLoseData

DONE = 0
DIFFERENCE = 1
USAGE = 2
UNREACHABLE = 3
WOULD_LOSE_DATA = 4
FAILED = 5  # any other reason: not a difference that a check found, so a script can tell them apart

_EXIT_CODES: tuple[tuple[type[EnrichError], int], ...] = (
    (ConfigError, USAGE),
    (Unreachable, UNREACHABLE),
    (WouldLoseData, WOULD_LOSE_DATA),
)


def outcome(program: Callable[[], int]) -> int:
    """Runs a program's work. Returns its exit code; an error of our tree, or a bug, becomes a message first."""
    try:
        return program()
    except EnrichError as error:
        print_error(error)
        return exit_code(error)
    except Exception:
        logging.getLogger("enrich").exception("this is a bug in enrich; please report it with the lines below")
        return FAILED
    finally:
        # A Kafka client with a request under way has to end before the interpreter does: its thread would wait for the
        # interpreter, and that for the thread. Those that errors hold are only found so.
        if "confluent_kafka" in sys.modules:
            gc.collect()


def exit_code(error: EnrichError) -> int:
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), FAILED)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line of stdout."""
    typer.echo(json_text(value))


def json_text(value: dict[str, Any]) -> str:
    """Values of rows too: bytes as base64, decimals as text, times in ISO 8601, a map as an object."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(", ", ": "), default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        # Arrow gives a map as a list of pairs.
        if value and all(isinstance(inner, tuple) for inner in value):
            return {str(key): _plain(inner) for key, inner in value}
        return [_plain(inner) for inner in value]
    return value


def time_text(milliseconds: int | None) -> str:
    """A moment as people read it, in UTC."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError):  # of a record whose producer counts in microseconds, say: beyond the calendar
        return f"{milliseconds} ms"


def readable(content: bytes | None, when_none: str) -> str:
    """Bytes for a terminal: as text where they are text that can be shown, else in hex."""
    if content is None:
        return when_none
    text = text_of(content)
    # A terminal obeys control characters, so they are shown as hex too.
    if text is not None and (text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()):
        return text
    return f"hex {content.hex(' ')}"


def text_of(content: bytes | None) -> str | None:
    """None where the bytes are no UTF-8."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def print_error(error: EnrichError) -> None:
    """What happened, where, and what to do next, on stderr; as a log record where logs are JSON."""
    from enrich.logs import logs_are_json

    if logs_are_json():
        fields = {"where": error.where, "next": error.next_step, "kind": type(error).__name__}
        logging.getLogger("enrich").error(error.what, extra={k: v for k, v in fields.items() if v is not None})
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("[bold red]error:[/]", end=" ")
    console.print(error.what, markup=False)
    for label, text in (("where:", error.where), ("next: ", error.next_step)):
        if text is not None:
            console.print(f"[bold]{label}[/]", end=" ")
            console.print(text, markup=False)

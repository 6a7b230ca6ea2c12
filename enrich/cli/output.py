"""What commands show to people, and ask them: progress, times, bytes, whether to go on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Column


def time_text(milliseconds: int | None) -> str:
    """A time in UTC, as people read it."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError):  # beyond the calendar, for example of a producer that counts in microseconds
        return f"{milliseconds} ms"


def readable(content: bytes | None, when_none: str) -> str:
    """Bytes for a terminal: as text if they are printable text, else in hex."""
    if content is None:
        return when_none
    text = text_of(content)
    # Text with control characters is shown in hex too: a terminal would obey them.
    if text is not None and (text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()):
        return text
    return f"hex {content.hex(' ')}"


def text_of(content: bytes | None) -> str | None:
    """None if the bytes are not UTF-8."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


@contextmanager
def counting(what: str) -> Iterator[Callable[[str], None]]:
    """Shows progress on stderr if it is a terminal, else nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda progress: status.update(f"{what}: {progress}")


def folding(*heads: str) -> "list[Column]":
    """Columns of a rich table in which a word that is longer than its column goes on in the next line: rich would cut
    it off, and a value, a key or a place that is cut cannot be copied."""
    from rich.table import Column

    return [Column(head, overflow="fold") for head in heads]


def says_yes(question: str) -> bool:
    """Asks a person at a terminal."""
    # Not typer.confirm: it asks on stdout, which is for what was done.
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        raise typer.Abort
    return answer.strip().lower() in ("y", "yes")

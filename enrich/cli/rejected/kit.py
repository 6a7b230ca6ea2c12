"""What `enrich dlq` and `enrich quarantine` have in common: options, and how a rejected record is shown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.json_lines import json_text
from enrich.base.printable import visible
from enrich.cli.output import folding, readable, text_of

if TYPE_CHECKING:
    from enrich.codecs import Piece

Force = Annotated[bool, typer.Option("--force", help="Also if the key has a newer record.")]


def nothing_chosen(next_step: str) -> Exception:
    from enrich.base.errors import ConfigError

    return ConfigError("nothing was chosen", next_step=next_step)


def require_yes(what: str, number: int, *, yes: bool) -> None:
    """Raises WouldLoseData if there is something to remove, and a person has not said yes."""
    from enrich.base.errors import WouldLoseData

    if number and not yes:
        raise WouldLoseData(f"this would remove {number:,} {what}", next_step="add --yes")


def contents(key: bytes | None, value: bytes | None, pieces: "Sequence[Piece]", **more: object) -> dict[str, Any]:
    """For machines: text if the bytes are UTF-8, else null; and always the bytes themselves, in base64."""
    return {
        "key": text_of(key),
        "key_bytes": key,
        "value": text_of(value),
        "value_bytes": value,
        **more,
        "decoded": {piece.column: piece.value for piece in pieces if piece.reason is None},
        "failed": {piece.column: piece.reason for piece in pieces if piece.reason is not None},
    }


def show_record(
    lines: Mapping[str, str], pieces: "Iterable[Piece]", headers: Iterable[tuple[str, bytes | None]] = ()
) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, markup=False)
    for name, text in lines.items():
        console.print(f"{name:8} {text}")
    for name, content in headers:
        console.print(f"header   {visible(name)}: {readable(content, 'null')}")
    for piece in pieces:
        is_decoded = piece.reason is None
        shown = json_text({piece.column: piece.value}) if is_decoded else f"not decoded: {piece.reason}"
        console.print(f"  {visible(shown)}")


def show_groups(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table with one line for each reason."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table(*folding(*columns))
    for row in rows:
        shown.add_row(*(escape(visible(cell)) for cell in row))
    Console().print(shown)


def show_replayed(replayed: str, skipped: Mapping[str, int]) -> None:
    typer.echo(replayed)
    for reason, number in skipped.items():
        typer.echo(f"  {number:,} stay: {reason}")

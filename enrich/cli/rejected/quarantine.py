"""`enrich quarantine`: shows the records of a table's topic that could not become rows, and why."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import json_text, print_json
from enrich.cli.output import readable, text_of, time_text
from enrich.cli.table.ready import DEADLINE_S, ready_table

if TYPE_CHECKING:
    from enrich.codecs import Piece
    from enrich.config import Pipeline
    from stores.protocol import Quarantined
    from stores.rocks import QuarantineState

app = typer.Typer(no_args_is_help=True, help="Records of a table's topic that could not become rows.")

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table of the configuration file.")]
ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The pipeline's configuration file.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per record.")]
Deadline = Annotated[float, typer.Option("--deadline", help="Seconds to wait until the table is ready.", min=0)]


@app.command("list")
def list_(
    config: ConfigFile,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Without it, all tables.")] = None,
    json: AsJson = False,
    deadline: Deadline = DEADLINE_S,
) -> None:
    """Counts the records in quarantine, by reason; with --json lists every record that is kept.

    Example: enrich quarantine list users -c pipeline.yaml
    """
    from enrich.config import load

    if table is not None:
        _list(config, table, json, deadline)
        return
    for name in load(config).tables:
        if not json:
            typer.echo(f"table {name}:")
        _list(config, name, json, deadline)


def _list(config: Path, table: str, json: bool, deadline: float) -> None:
    from enrich.config import load

    with ready_table(config, table, deadline) as (view, _):
        if json:
            topic = load(config).tables[table].topic
            for record in view.quarantined():
                print_json(_place(topic, record))
        else:
            _show_groups(view.quarantined(), view.quarantine)
        state = view.quarantine
    if state.kept_records < state.records:
        typer.echo(
            f"{state.records - state.kept_records:,} more came when the quarantine was full: they are only counted, "
            "and their bytes are only in the topic",
            err=True,
        )


@app.command()
def show(
    table: TableName,
    record: Annotated[str, typer.Argument(metavar="PARTITION/OFFSET", help="Its partition and offset, as listed.")],
    config: ConfigFile,
    json: AsJson = False,
    deadline: Deadline = DEADLINE_S,
) -> None:
    """Shows a whole record: key, bytes, reason, columns that can be decoded; exits with 1 if it is not there.

    Example: enrich quarantine show users 0/4711 -c pipeline.yaml
    """
    from enrich.config import load

    partition, offset = parsed_position(record)
    with ready_table(config, table, deadline) as (view, _):
        # More than one if the topic was recreated: then two records can have the same partition and offset.
        found = [one for one in view.quarantined() if (one.partition, one.offset) == (partition, offset)]
    pipeline = load(config)
    topic = pipeline.tables[table].topic
    for one in found:
        pieces = _pieces(pipeline, table, one.value)
        if json:
            print_json(_described(topic, one, pieces))
        else:
            _show_record(topic, one, pieces)
    if not found:
        typer.echo(f"{record} is not in the quarantine of table {table}", err=True)
        raise typer.Exit(DIFFERENCE)


def parsed_position(position: str) -> tuple[int, int]:
    from enrich.base.errors import ConfigError

    partition, _, offset = position.partition("/")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise ConfigError(
            f"`{position}` is not the position of a record",
            next_step="write it as PARTITION/OFFSET, for example 0/4711",
        )
    return int(partition), int(offset)


def _pieces(pipeline: "Pipeline", table: str, value: bytes | None) -> "list[Piece]":
    from enrich.codecs import pieces_of, schemas_of

    return [] if value is None else list(pieces_of(pipeline.tables[table], value, schemas_of(pipeline.kafka.registry)))


def _place(topic: str | None, record: "Quarantined") -> dict[str, Any]:
    return {
        "table": record.table,
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "reason": record.reason,
        "timestamp": record.timestamp,
    }


def _described(topic: str | None, record: "Quarantined", pieces: "list[Piece]") -> dict[str, Any]:
    """For machines: text if the bytes are UTF-8, else null; and always the bytes themselves, in base64."""
    return {
        **_place(topic, record),
        "arrived": record.arrived,
        "key": text_of(record.key),
        "key_bytes": record.key,
        "value": text_of(record.value),
        "value_bytes": record.value,
        "decoded": {piece.column: piece.value for piece in pieces if piece.reason is None},
        "failed": {piece.column: piece.reason for piece in pieces if piece.reason is not None},
    }


def _show_groups(records: "Iterable[Quarantined]", state: "QuarantineState") -> None:
    from collections import Counter

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from stores.rocks import OTHER_REASONS

    numbers = Counter(state.kept) + Counter(state.not_kept)
    if not numbers:
        typer.echo("nothing is in quarantine")
        return
    firsts: dict[str, Quarantined] = {}
    lasts: dict[str, int] = {}
    for record in records:
        group = record.reason if record.reason in state.kept else OTHER_REASONS
        firsts.setdefault(group, record)
        lasts[group] = max(lasts.get(group, record.timestamp), record.timestamp)
    shown = Table("reason", "records", "kept", "first", "newest")
    for reason, number in numbers.most_common():
        first = firsts.get(reason)
        position = "" if first is None else f"{first.partition}/{first.offset}"
        newest = time_text(lasts.get(reason))
        shown.add_row(escape(reason), f"{number:,}", f"{state.kept.get(reason, 0):,}", position, newest)
    Console().print(shown)


def _show_record(topic: str | None, record: "Quarantined", pieces: "list[Piece]") -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, markup=False)
    lines = {
        "record": f"{topic} {record.partition}/{record.offset} of {time_text(record.timestamp)}",
        "arrived": time_text(record.arrived),
        "reason": record.reason,
        "key": readable(record.key, "none: it is from before the topic was compacted"),
        "value": readable(record.value, "null, a tombstone"),
    }
    for name, text in lines.items():
        console.print(f"{name:8} {text}")
    for piece in pieces:
        is_decoded = piece.reason is None
        console.print(f"  {json_text({piece.column: piece.value}) if is_decoded else f'not decoded: {piece.reason}'}")

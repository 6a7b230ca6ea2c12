"""`enrich init`: the first configuration file of a pipeline, from flags, and from answers where somebody can answer."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from enrich.base.json_lines import print_json

if TYPE_CHECKING:
    from enrich.admin.starting.choices import Choices

_STACK = Path(".enrich-dev")
_EXAMPLE = "enrich init --events plays.raw --rows users.csv --key user_id"
_Answer = TypeVar("_Answer")


def init(
    events: Annotated[
        str | None, typer.Option("--events", metavar="TOPIC", help="The topic of your events, one JSON object each.")
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option("--rows", metavar="FILE", help="Metadata: CSV with a header, or one JSON object a line."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="COLUMN", help="The key's column in that file; several separated by commas."),
    ] = None,
    event_key: Annotated[
        str | None,
        typer.Option("--event-key", metavar="FIELD", help="The event's field with the key; by default as the column."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="TOPIC", help="The topic of enriched events.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The pipeline's name.")] = None,
    table: Annotated[str | None, typer.Option("--table", help="The table's name; by default the file's.")] = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="What an event's row is called; by default as the table.")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="HOST:PORT", help="By default those of `enrich dev up`, else ${BROKERS}."),
    ] = None,
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The file to write.")] = Path(
        "pipeline.yaml"
    ),
    directory: Annotated[Path, typer.Option("--dir", metavar="D", help="The directory of `enrich dev`.")] = _STACK,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object with what was decided.")] = False,
) -> None:
    """Writes a pipeline file that explains itself; asks on a terminal for what is missing. Connects to nothing.

    Example: enrich init --events plays.raw --rows users.csv --key user_id
    """
    from enrich.admin.starting.choices import (
        Choices,
        check_topics,
        event_fields,
        key_columns,
        name_for,
        object_for,
        object_name,
        output_for,
        table_for,
    )
    from enrich.admin.starting.choices import name as checked_name
    from enrich.admin.starting.choices import topic as checked_topic
    from enrich.admin.starting.metadata import read_metadata
    from enrich.admin.starting.page import next_commands, page_of
    from enrich.admin.starting.writing import check_place, write

    check_place(config, force=force)
    chosen = _asked if _must_ask({"--events": events, "--rows": rows, "--key": key}) else _given
    topic = chosen(events, "The topic of your events", lambda text: checked_topic(text, "--events"))
    out = chosen(
        output, "The topic of enriched events", lambda text: checked_topic(text, "--output"), output_for(topic)
    )
    named = chosen(name, "The pipeline's name", lambda text: checked_name(text, "--name"), name_for(topic))
    metadata = chosen(
        None if rows is None else str(rows),
        "A file of metadata (CSV, or one JSON object a line)",
        lambda text: read_metadata(Path(text)),
    )
    columns = ", ".join(metadata.names)
    keys = chosen(key, f"The key's column, of {columns}", lambda text: key_columns(text, metadata))
    fields = chosen(event_key, "The event's field with the key", lambda text: event_fields(text, keys), ",".join(keys))
    table_name = checked_name(table or table_for(metadata.path), "--table")
    choices = check_topics(
        Choices(
            name=named,
            brokers=brokers or _brokers_of(directory),
            events=topic,
            output=out,
            dead=f"{named}.dlq",
            table=table_name,
            rows=f"{table_name}.v1",
            object=object_for(table_name, fields) if as_ is None else object_name(as_, fields),
            metadata=metadata,
            key=keys,
            fields=fields,
        )
    )
    write(config, page_of(choices, config), force=force)
    following = next_commands(choices, config)
    if json:
        print_json(_decided(choices, config) | {"next": following})
        return
    typer.echo(
        f"{config} joins events of {topic} with {metadata.rows:,} rows of {metadata.path} by {', '.join(fields)}, "
        f"and writes them to {out}. Read it: it says what each line is for.\n\nnext:"
    )
    for command in following:
        typer.echo(f"  {command}")


def _must_ask(needed: dict[str, object]) -> bool:
    """Raises ConfigError for all that is missing where nobody can be asked."""
    from enrich.base.errors import ConfigError

    missing = [flag for flag, value in needed.items() if value is None]
    if missing and not sys.stdin.isatty():
        raise ConfigError(
            f"needed, since there is no terminal to ask: {', '.join(missing)}", next_step=f"for example: {_EXAMPLE}"
        )
    return bool(missing)


def _given(given: str | None, question: str, check: Callable[[str], _Answer], default: str = "") -> _Answer:  # noqa: ARG001 - as `_asked`
    return check(default if given is None else given)


def _asked(given: str | None, question: str, check: Callable[[str], _Answer], default: str | None = None) -> _Answer:
    """Asks for what no flag says, and asks again after a wrong answer."""
    from enrich.base.errors import ConfigError

    if given is not None:
        return check(given)
    while True:
        # Not typer.prompt: it writes a space to stdout, which is for what was decided.
        typer.echo(f"{question}: " if default is None else f"{question} [{default}]: ", nl=False, err=True)
        answer = sys.stdin.readline()
        if not answer:
            raise typer.Abort
        try:
            return check(answer.strip() or default or "")
        except ConfigError as error:
            typer.echo(f"  {error}", err=True)


def _brokers_of(directory: Path) -> str:
    from contextlib import suppress

    from enrich.admin.starting.page import VARIABLE
    from enrich.base.errors import EnrichError
    from enrich.dev import Stack

    addresses = None
    # A stack that cannot be read is no reason not to write a file: `enrich dev up` says what is wrong with it.
    with suppress(EnrichError, OSError):
        addresses = Stack(directory).addresses()
    return VARIABLE if addresses is None else addresses.bootstrap_servers


def _decided(choices: "Choices", config: Path) -> dict[str, object]:
    return {
        "file": str(config),
        "pipeline": choices.name,
        "brokers": choices.brokers,
        "events": choices.events,
        "event_key": list(choices.fields),
        "output": choices.output,
        "dlq": choices.dead,
        "table": choices.table,
        "topic": choices.rows,
        "as": choices.object,
        "key": list(choices.key),
        "key_kind": "cidr" if choices.is_cidr else "exact",
        "columns": {column.name: column.type for column in choices.columns},
        "rows": choices.metadata.rows,
    }

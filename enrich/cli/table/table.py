"""`enrich table`: reads the rows of a table on this host. Starts the agent if there is none."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import json_text, print_json
from enrich.base.printable import visible
from enrich.cli.options import READY_S, ConfigFile, ReadyDeadline, TableName, require_utf8
from enrich.cli.output import counting, folding, time_text
from enrich.cli.table.ready import load_topic_table, ready_table

if TYPE_CHECKING:
    from enrich.host.reader.rows import Row

app = typer.Typer(no_args_is_help=True, help="Rows of a table, from this host's copy of it.")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per row.")]

FromTopic = Annotated[
    bool, typer.Option("--from-topic", help="Read the whole topic instead: without an agent, and only exact keys.")
]

_WHY_NOT = {"deleted": "is deleted", "bad_key": "cannot be a key of this table"}


@app.command()
def get(
    table: TableName,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY", callback=require_utf8, help="Keys; for a cidr table, addresses.")
    ],
    config: ConfigFile,
    from_topic: FromTopic = False,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Shows the rows of these keys; exits with 1 if one is not there.

    Example: enrich table get users ann bob -c pipeline.yaml
    """
    if from_topic:
        newest = [versions[-1:] for versions in _recorded(config, table, keys, deadline)]
        _show((row for rows in newest for row in rows if row.value is not None), json)
        for key, rows in zip(keys, newest, strict=True):
            if not rows or rows[-1].value is None:
                typer.echo(f"{key} {'is deleted or undecodable' if rows else 'is not there'}", err=True)
        if not all(rows and rows[-1].value is not None for rows in newest):
            raise typer.Exit(DIFFERENCE)
        return
    with ready_table(config, table, deadline) as (view, _):
        from enrich.host.reader.rows import rows_of

        rows = rows_of(view, keys)
    found = [row for row in rows if row.value is not None]
    _show(found, json)
    for row in rows:
        if row.value is None:
            typer.echo(f"{row.key} {_WHY_NOT.get(row.status, 'is not there')}", err=True)
    if len(found) < len(rows):
        raise typer.Exit(DIFFERENCE)


@app.command()
def scan(
    table: TableName,
    config: ConfigFile,
    prefix: Annotated[str, typer.Option(callback=require_utf8, help="Only keys that begin with it.")] = "",
    limit: Annotated[int | None, typer.Option(help="The largest number of rows.", min=0, max=2**63 - 1)] = None,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Shows all rows in key order, without deleted ones.

    Example: enrich table scan users --prefix eu- --limit 10 -c pipeline.yaml
    """
    from itertools import islice

    with ready_table(config, table, deadline) as (view, spec):
        from enrich.host.reader.rows import decoded

        living = (version for version in view.scan(prefix.encode()) if version.value is not None)
        _show(decoded(spec, islice(living, limit)), json)


@app.command()
def history(
    table: TableName,
    key: Annotated[
        str, typer.Argument(metavar="KEY", callback=require_utf8, help="One key; for a cidr table, a network.")
    ],
    config: ConfigFile,
    from_topic: FromTopic = False,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Shows all versions of a key that the table still has, the oldest first, with tombstones; exits with 1 if none.

    Example: enrich table history users ann -c pipeline.yaml
    """
    if from_topic:
        (rows,) = _recorded(config, table, [key], deadline)
        _show(rows, json)
        if not rows:
            typer.echo(f"{key} is not there", err=True)
            raise typer.Exit(DIFFERENCE)
        return
    with ready_table(config, table, deadline) as (view, spec):
        from enrich.host.reader.rows import decoded

        versions = view.versions(key.encode())
        _show(decoded(spec, versions), json)
    if not versions:
        typer.echo(f"{key} is not there", err=True)
        raise typer.Exit(DIFFERENCE)


def _recorded(config: Path, table: str, keys: list[str], deadline: float) -> "list[list[Row]]":
    """The versions of each key, read straight from the topic."""
    from enrich.admin.cluster import Cluster
    from enrich.admin.rows.recorded import recorded_versions
    from enrich.host.reader.rows import decoded

    pipeline, found = load_topic_table(config, table, next_step="leave out --from-topic")
    cluster = Cluster(pipeline.kafka, deadline)
    with counting(f"table {table}") as report:
        versions = recorded_versions(cluster, found.topic, [key.encode() for key in keys], report)
    return [list(decoded(found.spec, versions[key.encode()])) for key in keys]


def _show(rows: "Iterable[Row]", as_json: bool) -> None:
    if as_json:
        for row in rows:
            shown = vars(row)
            print_json({name: shown[name] for name in ("key", "value", "partition", "offset", "timestamp")})
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table: Table | None = None
    for row in rows:
        if table is None:
            table = Table(*folding("key", "value", "partition/offset", "time"))
        value = "[yellow]deleted[/]" if row.value is None else escape(visible(json_text(row.value)))
        table.add_row(escape(visible(row.key)), value, f"{row.partition}/{row.offset}", time_text(row.timestamp))
    if table is not None:
        Console().print(table)

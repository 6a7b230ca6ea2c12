"""`enrich table load|put|delete|rebuild`: changes a table in its topic; each command is one transaction."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.json_lines import print_json
from enrich.cli.options import (
    KAFKA_S,
    READY_S,
    ConfigFile,
    KafkaDeadline,
    Purges,
    ReadyDeadline,
    TableName,
    require_utf8,
)
from enrich.cli.output import counting, says_yes
from enrich.cli.table.ready import how_far, load_topic_table
from enrich.cli.table.table import AsJson

if TYPE_CHECKING:
    from enrich.admin.rows.loading import Counts
    from enrich.admin.rows.target import Target
    from enrich.config import FileType, Pipeline

Yes = Annotated[bool, typer.Option("--yes", help="Do it; without it, and without a terminal to ask, only report.")]


def add_commands(app: typer.Typer) -> None:
    app.command("load")(load)
    app.command("put")(put)
    app.command("delete")(delete)
    app.command("rebuild")(rebuild)


def load(
    table: TableName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, JSON (one object per line) or Parquet.")],
    config: ConfigFile,
    key: Annotated[
        str, typer.Option(help="The column of the key; for a composite key all columns, separated by commas.")
    ] = "key",
    type_: Annotated[str | None, typer.Option("--type", help="csv, json or parquet, if the name does not say.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Delete the keys that are not in the file.")] = False,
    skip_rejected: Annotated[
        bool, typer.Option("--skip-rejected", help="Leave out rows that cannot be written.")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Writes a file's rows to the table's topic, in one transaction. Reports first what it would do.

    Example: enrich table load users users.csv --key user_id --yes -c pipeline.yaml
    """
    from enrich.admin.rows.files import RowsFile
    from enrich.admin.rows.loading import load_of, rejected

    pipeline, target = _target(config, table, deadline)
    rows_file = RowsFile(file, _file_type(type_), tuple(part.strip() for part in key.split(",")), target)
    started = time.monotonic()
    with (
        counting(f"table {table}") as report,
        load_of(target, rows_file, Path(pipeline.state_dir) / pipeline.name, report) as loading,
    ):
        asks = not yes and sys.stdin.isatty()
        # With --replace the whole file must be read first, to know which keys are not in it.
        counts = None if yes and not replace else loading.counted(replace=replace)
        if counts is not None and counts.rejected and not skip_rejected and (yes or asks):
            raise rejected(counts)
        if yes or (asks and counts is not None and _confirmed(table, counts)):
            counts = loading.written(skip_rejected=skip_rejected, replace=replace)
            done = True
        else:
            done = False
    assert counts is not None  # noqa: S101 - counted or written
    _show_load(table, target.topic, counts, time.monotonic() - started, done=done, as_json=json)


def put(
    table: TableName,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", callback=require_utf8, help="The row's key; a composite one as a JSON array."),
    ],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            callback=require_utf8,
            help="A JSON object of the columns; for a table of text the text itself.",
        ),
    ],
    config: ConfigFile,
    json: AsJson = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Writes one row to the table's topic, after checking that it can be read back.

    Example: enrich table put users ann '{"plan": "pro"}' -c pipeline.yaml
    """
    from enrich.admin.rows.changing import encoded_row
    from enrich.admin.rows.changing import put as put_rows

    _, target = _target(config, table, deadline)
    raw = target.require_key(key)
    ((partition, offset),) = put_rows(target, {raw: encoded_row(target, value)}).items()
    if json:
        print_json({"table": table, "topic": target.topic, "key": key, "partition": partition, "offset": offset})
    else:
        typer.echo(f"{key} was written to topic {target.topic}, {partition}/{offset}")


def delete(
    table: TableName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", callback=require_utf8, help="The rows' keys.")],
    config: ConfigFile,
    yes: Purges = False,
    json: AsJson = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Deletes rows: writes a tombstone for each key, all in one transaction; exits with 4 without --yes.

    Example: enrich table delete users ann bob --yes -c pipeline.yaml
    """
    from enrich.admin.rows.changing import put as put_rows
    from enrich.base.errors import WouldLoseData

    _, target = _target(config, table, deadline)
    raw = {target.require_key(key): None for key in keys}
    if not yes:
        raise WouldLoseData(
            f"this would delete {len(raw)} rows of table {table}", where=f"topic {target.topic}", next_step="add --yes"
        )
    put_rows(target, raw)
    if json:
        print_json({"table": table, "topic": target.topic, "deleted": len(raw)})
    else:
        typer.echo(f"{len(raw)} rows of table {table} were deleted")


def rebuild(table: TableName, config: ConfigFile, json: AsJson = False, deadline: ReadyDeadline = READY_S) -> None:
    """Loads the table on this host again from its topic. Until that is done the old rows answer.

    Example: enrich table rebuild users -c pipeline.yaml
    """
    from enrich.admin.rows.rebuilding import rebuild as rebuild_table

    pipeline, _ = load_topic_table(config, table)
    started = time.monotonic()
    with counting(f"table {table}") as report:
        rows = rebuild_table(pipeline, table, deadline_s=deadline, report=lambda header: report(how_far(header, table)))
    seconds = time.monotonic() - started
    if json:
        print_json({"table": table, "rows": rows, "seconds": round(seconds, 3)})
    else:
        typer.echo(f"table {table} was loaded again: {rows:,} rows after {seconds:.1f} s")


def _target(config: Path, table: str, deadline: float) -> "tuple[Pipeline, Target]":
    from enrich.admin.cluster import Cluster
    from enrich.admin.rows.target import target_of

    next_step = "change its source: the agent reads it again automatically"
    pipeline, found = load_topic_table(config, table, next_step=next_step)
    target = target_of(pipeline, found, Cluster(pipeline.kafka, deadline))
    if target.other_writer is not None:
        typer.echo(
            f"warning: topic {target.topic} is written by the source {target.other_writer}: its next full read "
            "undoes changes that were not made there",
            err=True,
        )
    return pipeline, target


def _file_type(given: str | None) -> "FileType | None":
    from enrich.base.errors import ConfigError
    from enrich.config import FileType

    if given is None:
        return None
    try:
        return FileType(given)
    except ValueError:
        raise ConfigError(f"there is no file type {given}", next_step="use csv, json or parquet") from None


def _confirmed(table: str, counts: "Counts") -> bool:
    deletes = f" and delete {counts.deleted:,}" if counts.deleted else ""
    return says_yes(f"write {counts.written:,} rows of table {table}{deletes}?")


def _show_load(table: str, topic: str, counts: "Counts", seconds: float, *, done: bool, as_json: bool) -> None:
    if as_json:
        print_json({"table": table, "topic": topic, "done": done, **vars(counts), "seconds": round(seconds, 3)})
        return
    deleted = f", {counts.deleted:,} {'deleted' if done else 'to delete'}" if counts.deleted else ""
    verb = "written to" if done else "to write to"
    typer.echo(f"{counts.written:,} rows {verb} topic {topic}{deleted}, after {seconds:.1f} s")
    if counts.repeated:
        typer.echo(f"{counts.repeated:,} rows have a key that occurs again in the file: the last one counts")
    for reason, number in counts.reasons.items():
        typer.echo(f"{number:,} rows {'left out' if done else 'cannot be written'}: {reason}")
    if not done:
        typer.echo("nothing was written: add --yes")

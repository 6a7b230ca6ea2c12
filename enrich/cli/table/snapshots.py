"""`enrich table export|import|verify`: snapshots of a table, and its comparison with its topic."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.base.printable import visible
from enrich.cli.options import READY_S, ConfigFile, ReadyDeadline, TableName
from enrich.cli.output import counting, folding
from enrich.cli.table.ready import how_far, load_topic_table
from enrich.cli.table.table import AsJson

if TYPE_CHECKING:
    from enrich.admin.verify.comparing import Compared, Difference
    from enrich.config import Pipeline

_SHOWN = 20


def add_commands(app: typer.Typer) -> None:
    app.command("export")(export)
    app.command("import")(import_)
    app.command("verify")(verify)


def export(
    table: TableName,
    config: ConfigFile,
    to: Annotated[str | None, typer.Option(help="Target directory; by default `snapshots.path` of the file.")] = None,
    keep: Annotated[int | None, typer.Option(help="Keep only this many newest snapshots of the table.", min=1)] = None,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Writes a snapshot of the table with its history, from which other hosts can start.

    Example: enrich table export users --to /mnt/snapshots --keep 3 -c pipeline.yaml
    """
    from enrich.admin.snapshots.exporting import export_from_reader
    from stores.clock import SystemClock
    from stores.snapshots import ahead_of, remove_older

    pipeline, _ = load_topic_table(config, table)
    location = _location(to, pipeline)
    started = time.monotonic()
    with counting(f"exporting table {table}") as count:
        snapshot = export_from_reader(
            pipeline,
            table,
            location,
            SystemClock(),
            deadline_s=deadline,
            report_waiting=lambda header: count(how_far(header, table)),
            report_rows=lambda written, rows: count(f"{written:,} row versions of {rows:,} keys"),
        )
    seconds = time.monotonic() - started
    folder = snapshot.path.parent
    ahead = [] if keep is None else ahead_of(folder, SystemClock().now_ms())
    removed = [] if keep is None else remove_older(folder, keep, own=snapshot.path, ahead=ahead)
    manifest = snapshot.manifest
    if json:
        print_json(
            {
                "table": table,
                "path": str(snapshot.path),
                "rows": manifest.rows,
                "versions": manifest.versions,
                "bytes": sum(file.length for file in manifest.files),
                "complete_through": manifest.complete_through,
                "seconds": round(seconds, 3),
                "removed": [str(path) for path in removed],
                "ahead": [str(path) for path in ahead],
            }
        )
        return
    typer.echo(f"{manifest.rows:,} rows, {manifest.versions:,} versions in {seconds:.1f} s: {snapshot.path}")
    for path in removed:
        typer.echo(f"removed {path}")
    for path in ahead:
        typer.echo(f"neither counted nor removed, since its time lies ahead of this host's clock: {path}")


def import_(
    table: TableName,
    config: ConfigFile,
    source: Annotated[
        str | None,
        typer.Option("--from", help="A snapshot, or a directory of several; by default `snapshots.path`."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Also if the table has rows on this host.")] = False,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Fills the table from a snapshot and from its topic's later records; exits with 4 if rows could be missing.

    Example: enrich table import users --from /mnt/snapshots -c pipeline.yaml
    """
    from enrich.admin.snapshots.importing import chosen_snapshot, import_by_agent, require_empty, require_good
    from stores.clock import SystemClock

    pipeline, topic_table = load_topic_table(config, table)
    snapshot = chosen_snapshot(_location(source, pipeline), pipeline.name, table)
    started = time.monotonic()
    with counting(f"verifying {snapshot.path.name}") as count:
        versions = snapshot.manifest.versions
        require_good(
            snapshot,
            topic_table,
            pipeline,
            SystemClock(),
            lambda done: count(f"{done:,} of {versions:,} row versions"),
        )
    if not yes:
        require_empty(topic_table, pipeline)
    with counting(f"table {table}") as count:
        rows = import_by_agent(
            snapshot,
            topic_table,
            pipeline,
            deadline_s=deadline,
            report=lambda header: count(how_far(header, table)),
        )
    seconds = time.monotonic() - started
    if json:
        print_json({"table": table, "path": str(snapshot.path), "rows": rows, "seconds": round(seconds, 3)})
    else:
        typer.echo(f"table {table} has {rows:,} rows, from {snapshot.path} and its topic, after {seconds:.1f} s")


def verify(
    table: TableName,
    config: ConfigFile,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Compares this host's rows with the topic, one by one; exits with 1 if there is a difference.

    Example: enrich table verify users -c pipeline.yaml
    """
    from enrich.admin.verify.verifying import comparison
    from stores.clock import SystemClock

    pipeline, _ = load_topic_table(config, table)
    started = time.monotonic()
    shown: list[Difference] = []
    with (
        counting(f"verifying table {table}") as count,
        comparison(
            pipeline,
            table,
            SystemClock(),
            deadline_s=deadline,
            report_waiting=lambda header: count(how_far(header, table)),
            report=lambda what, number: count(f"{number:,} {what}"),
        ) as compared,
    ):
        for difference in compared.differences():
            if json:
                print_json(_as_fields(table, difference))
            elif len(shown) < _SHOWN:
                shown.append(difference)
    found = compared.compared
    if json:
        print_json({"table": table, "seconds": round(time.monotonic() - started, 3), **vars(found)})
    else:
        _show(table, found, shown)
    if found.differences:
        raise typer.Exit(DIFFERENCE)


def _as_fields(table: str, difference: "Difference") -> dict[str, object]:
    key = None if difference.key is None else difference.key.decode("utf-8", "backslashreplace")
    return {
        "table": table,
        "difference": difference.kind.value,
        "key": key,
        "partition": difference.partition,
        "offset": difference.offset,
        "what": difference.what,
    }


def _show(table: str, found: "Compared", shown: "list[Difference]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    if shown:
        listed = Table(*folding("difference", "key", "partition/offset", "what"))
        for one in shown:
            fields = _as_fields(table, one)
            place = "" if one.partition is None else f"{one.partition}/{'' if one.offset is None else one.offset}"
            listed.add_row(
                f"[red]{one.kind}[/]", escape(visible(str(fields["key"] or ""))), place, escape(visible(one.what))
            )
        console.print(listed)
        if found.differences > len(shown):
            console.print(f"... and {found.differences - len(shown):,} more: --json lists all")
    verdict = "no difference" if not found.differences else f"{found.differences:,} differences"
    console.print(f"table {table}: {verdict} in {found.keys:,} keys")
    for count, what in (
        (found.changed_meanwhile, "changed during the comparison and were not compared"),
        (found.undecodable, "have a newest record that cannot become a row"),
        (found.forgotten_tombstones, "are deleted, and only one of both has the tombstone still"),
    ):
        if count:
            console.print(f"{count:,} {what}")


def _location(given: str | None, pipeline: "Pipeline") -> Path:
    from enrich.base.errors import ConfigError
    from enrich.config.sections.tables.snapshots import snapshot_location

    if given is None and pipeline.snapshots is None:
        raise ConfigError(
            "there is no directory for snapshots",
            next_step="name one, or add a section `snapshots: {path: ...}` to the configuration",
        )
    try:
        return Path(pipeline.snapshots.path) if given is None and pipeline.snapshots else snapshot_location(given or "")
    except ValueError as error:
        raise ConfigError(str(error), next_step="name a directory, or `file:` followed by its path") from None

"""`enrich quarantine replay|purge`: sends back records that can become rows now, or removes records from this host."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.cli.output import text_of
from enrich.cli.rejected.quarantine import AsJson, ConfigFile, Deadline, TableName, parsed_position
from enrich.cli.table.ready import DEADLINE_S, ready_table

if TYPE_CHECKING:
    from stores.protocol import Quarantined

Records = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PARTITION/OFFSET]...", help="Records by partition and offset, as listed."),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Only records whose reason has this text in it.")]
All = Annotated[bool, typer.Option("--all", help="All records, if nothing else is chosen.")]


def add_commands(app: typer.Typer) -> None:
    app.command("replay")(replay)
    app.command("purge")(purge)


def replay(
    table: TableName,
    config: ConfigFile,
    records: Records = None,
    reason: Reason = None,
    every: All = False,
    force: Annotated[bool, typer.Option("--force", help="Also if the key has a newer record.")] = False,
    json: AsJson = False,
    deadline: Deadline = DEADLINE_S,
) -> None:
    """Writes records that can become rows now to the table's topic again; exits with 1 if some cannot be sent back.

    Example: enrich quarantine replay users --all -c pipeline.yaml
    """
    from enrich.admin.cluster import Cluster
    from enrich.admin.rejected.quarantined import NEWER, purge_quarantine, replayable, send_back
    from enrich.base.errors import ConfigError
    from enrich.config import load
    from enrich.host.tables import topic_tables

    chosen = _chosen(config, table, records, reason, every, deadline)
    pipeline = load(config)
    topic_table = topic_tables(pipeline).get(table)
    if topic_table is None:
        raise ConfigError(
            f"table `{table}` has a loader, not a topic", next_step="its loader reads all rows again anyway"
        )
    cluster = Cluster(pipeline.kafka, min(deadline, 30.0))
    good, left, newer = replayable(cluster, topic_table, chosen)
    forced = left.pop(NEWER, []) if force else []
    for record in forced:
        fields = {**_fields(record), "overwrites": str(newer[record]), "key": text_of(record.key)}
        print_json(fields) if json else typer.echo(f"{record.partition}/{record.offset} overwrites {newer[record]}")
    if good or forced:
        send_back(cluster, topic_table, [*good, *forced])
    purge_quarantine(pipeline, table, [*good, *forced], deadline)
    skipped = {why: len(records) for why, records in left.items()}
    if json:
        print_json({"table": table, "replayed": len(good) + len(forced), "skipped": skipped})
    else:
        typer.echo(f"{len(good) + len(forced):,} records replayed")
        for why, number in skipped.items():
            typer.echo(f"  {number:,} stay: {why}")
    if skipped:
        raise typer.Exit(DIFFERENCE)


def purge(
    table: TableName,
    config: ConfigFile,
    records: Records = None,
    reason: Reason = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Required: the command does not ask.")] = False,
    json: AsJson = False,
    deadline: Deadline = DEADLINE_S,
) -> None:
    """Removes the records that it lists from this host's quarantine; without --yes it only lists them and exits with 4.

    Example: enrich quarantine purge users 0/4711 --yes -c pipeline.yaml
    """
    from enrich.admin.rejected.quarantined import purge_quarantine
    from enrich.base.errors import WouldLoseData
    from enrich.config import load

    chosen = _chosen(config, table, records, reason, every, deadline)
    for record in chosen:
        if json:
            print_json({"purged": yes, **_fields(record)})
        else:
            typer.echo(f"{record.partition}/{record.offset}: {record.reason}")
    if chosen and not yes:
        raise WouldLoseData(f"this would remove {len(chosen):,} records from this host", next_step="add --yes")
    purge_quarantine(load(config), table, chosen, deadline)
    if not json:
        typer.echo(f"{len(chosen):,} records are purged")


def _chosen(
    config: Path, table: str, positions: list[str] | None, reason: str | None, every: bool, deadline: float
) -> "list[Quarantined]":
    from enrich.base.errors import ConfigError

    if not positions and reason is None and not every:
        raise ConfigError("nothing was chosen", next_step="name records, or give --reason or --all")
    wanted = {parsed_position(position) for position in positions or ()}
    with ready_table(config, table, deadline) as (view, _):
        return [
            record
            for record in view.quarantined()
            if (not wanted or (record.partition, record.offset) in wanted) and (reason or "") in record.reason
        ]


def _fields(record: "Quarantined") -> dict[str, Any]:
    return {
        "table": record.table,
        "partition": record.partition,
        "offset": record.offset,
        "reason": record.reason,
        "timestamp": record.timestamp,
    }

"""`enrich quarantine`: shows records of a table's topic that could not become rows, sends them back, removes them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.base.printable import visible
from enrich.cli.options import KAFKA_S, READY_S, ConfigFile, Purges, ReadyDeadline, TableName
from enrich.cli.output import readable, text_of, time_text
from enrich.cli.rejected import kit
from enrich.cli.table.ready import load_topic_table, ready_table

if TYPE_CHECKING:
    from enrich.codecs import Piece
    from enrich.config import Pipeline
    from stores.protocol import Quarantined
    from stores.rocks import QuarantineState

app = typer.Typer(no_args_is_help=True, help="Records of a table's topic that could not become rows.")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per record.")]
Records = Annotated[
    list[str] | None,
    typer.Argument(metavar="PARTITION/OFFSET", help="Records by partition and offset, as listed."),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Only records whose reason has this text in it.")]
All = Annotated[bool, typer.Option("--all", help="All records, if nothing else is chosen.")]


@app.command("list")
def list_(
    config: ConfigFile,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Without it, all tables.")] = None,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
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
                print_json(_origin(record, topic=topic))
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
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Shows a whole record: key, bytes, reason, columns that can be decoded; exits with 1 if it is not there.

    Example: enrich quarantine show users 0/4711 -c pipeline.yaml
    """
    from enrich.config import load

    partition, offset = _parsed(record)
    with ready_table(config, table, deadline) as (view, _):
        # More than one if the topic was recreated: then two records can have the same partition and offset.
        found = [one for one in view.quarantined() if (one.partition, one.offset) == (partition, offset)]
    pipeline = load(config)
    topic = pipeline.tables[table].topic
    for one in found:
        pieces = _pieces(pipeline, table, one.value)
        if json:
            origin = _origin(one, topic=topic) | {"arrived": one.arrived}
            print_json(origin | kit.contents(one.key, one.value, pieces))
        else:
            _show_record(topic, one, pieces)
    if not found:
        typer.echo(f"{record} is not in the quarantine of table {table}", err=True)
        raise typer.Exit(DIFFERENCE)


@app.command()
def replay(
    table: TableName,
    config: ConfigFile,
    records: Records = None,
    reason: Reason = None,
    every: All = False,
    force: kit.Force = False,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Writes records that can become rows now to the table's topic again; exits with 1 if some cannot be sent back.

    Example: enrich quarantine replay users --all -c pipeline.yaml
    """
    from enrich.admin.cluster import Cluster
    from enrich.admin.rejected.quarantined import NEWER, purge_quarantine, replayable, send_back

    chosen = _chosen(config, table, records, reason, every, deadline)
    pipeline, topic_table = load_topic_table(config, table)
    cluster = Cluster(pipeline.kafka, min(deadline, KAFKA_S))
    good, left, newer = replayable(cluster, topic_table, chosen)
    forced = left.pop(NEWER, []) if force else []
    for record in forced:
        fields = {**_origin(record), "overwrites": str(newer[record]), "key": text_of(record.key)}
        print_json(fields) if json else typer.echo(f"{record.partition}/{record.offset} overwrites {newer[record]}")
    if good or forced:
        send_back(cluster, topic_table, [*good, *forced])
    purge_quarantine(pipeline, table, [*good, *forced], deadline)
    skipped = {why: len(records) for why, records in left.items()}
    if json:
        print_json({"table": table, "replayed": len(good) + len(forced), "skipped": skipped})
    else:
        kit.show_replayed(f"{len(good) + len(forced):,} records replayed", skipped)
    if skipped:
        raise typer.Exit(DIFFERENCE)


@app.command()
def purge(
    table: TableName,
    config: ConfigFile,
    records: Records = None,
    reason: Reason = None,
    every: All = False,
    yes: Purges = False,
    json: AsJson = False,
    deadline: ReadyDeadline = READY_S,
) -> None:
    """Removes the records that it lists from this host's quarantine; without --yes it only lists them and exits with 4.

    Example: enrich quarantine purge users 0/4711 --yes -c pipeline.yaml
    """
    from enrich.admin.rejected.quarantined import purge_quarantine
    from enrich.config import load

    chosen = _chosen(config, table, records, reason, every, deadline)
    for record in chosen if not json else ():
        typer.echo(f"{record.partition}/{record.offset}: {visible(record.reason)}")
    if yes:
        purge_quarantine(load(config), table, chosen, deadline)
    for record in chosen if json else ():
        print_json({"purged": yes, **_origin(record)})
    kit.require_yes("records from this host", len(chosen), yes=yes)
    if not json:
        typer.echo(f"{len(chosen):,} records are purged")


def _chosen(
    config: Path, table: str, positions: list[str] | None, reason: str | None, every: bool, deadline: float
) -> "list[Quarantined]":
    if not positions and reason is None and not every:
        raise kit.nothing_chosen("name records, or give --reason or --all")
    wanted = {_parsed(position) for position in positions or ()}
    with ready_table(config, table, deadline) as (view, _):
        return [
            record
            for record in view.quarantined()
            if (not wanted or (record.partition, record.offset) in wanted) and (reason or "") in record.reason
        ]


def _parsed(position: str) -> tuple[int, int]:
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


def _origin(record: "Quarantined", **more: str | None) -> dict[str, Any]:
    return {
        "table": record.table,
        **more,
        "partition": record.partition,
        "offset": record.offset,
        "reason": record.reason,
        "timestamp": record.timestamp,
    }


def _show_groups(records: "Iterable[Quarantined]", state: "QuarantineState") -> None:
    from collections import Counter

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
    rows = []
    for reason, number in numbers.most_common():
        first = firsts.get(reason)
        position = "" if first is None else f"{first.partition}/{first.offset}"
        kept, newest = state.kept.get(reason, 0), time_text(lasts.get(reason))
        rows.append((reason, f"{number:,}", f"{kept:,}", position, newest))
    kit.show_groups(("reason", "records", "kept", "first", "newest"), rows)


def _show_record(topic: str | None, record: "Quarantined", pieces: "list[Piece]") -> None:
    lines = {
        "record": f"{topic} {record.partition}/{record.offset} of {time_text(record.timestamp)}",
        "arrived": time_text(record.arrived),
        "reason": visible(record.reason),
        "key": readable(record.key, "none: it is from before the topic was compacted"),
        "value": readable(record.value, "null, a tombstone"),
    }
    kit.show_record(lines, pieces)

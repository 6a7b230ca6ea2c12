"""`enrich topics rekey|copy`: moves a table to another topic; each run continues where the last one ended."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.base.printable import visible
from enrich.cli.options import KAFKA_S, ConfigFile, JsonLines, KafkaDeadline, TableName
from enrich.cli.output import counting

if TYPE_CHECKING:
    from enrich.admin.cluster import Cluster
    from enrich.admin.moves.move import Route
    from enrich.admin.moves.verifying import Verified
    from enrich.config import Pipeline

Follow = Annotated[bool, typer.Option("--follow", help="Also copy new records, until Ctrl-C.")]
CutOver = Annotated[bool, typer.Option("--cutover", help="Wait until nobody writes, compare all keys, finish.")]
Quiet = Annotated[
    float, typer.Option("--quiet", metavar="SECONDS", help="Seconds without a writer that a cutover needs.", min=0)
]
Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", help="Seconds to wait for such a quiet time.", min=0)]


def add_commands(app: typer.Typer) -> None:
    app.command("rekey")(rekey)
    app.command("copy")(copy)


def rekey(
    table: TableName,
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="The new topic; created if it does not exist.")],
    config: ConfigFile,
    partitions: Annotated[int | None, typer.Option(help="Its number of partitions.", min=1, max=100_000)] = None,
    follow: Follow = False,
    cutover: CutOver = False,
    quiet: Quiet = 5.0,
    wait: Wait = 60.0,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Moves a table to a topic with other partitions; exits with 1 if writers do not stop or keys differ.

    Example: enrich topics rekey users --to users.v2 --partitions 24 --cutover -c pipeline.yaml
    """
    from enrich.admin.moves.routes import rekey_route

    def route(pipeline: "Pipeline", cluster: "Cluster") -> "tuple[Route, str]":
        return rekey_route(pipeline, table, to, partitions, cluster), table

    _move(config, table, route, follow, cutover, (quiet, wait), json, deadline)


def copy(
    table: TableName,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The table that it becomes, in the same file.")],
    config: ConfigFile,
    follow: Follow = False,
    cutover: CutOver = False,
    quiet: Quiet = 5.0,
    wait: Wait = 60.0,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Moves a table's rows to the topic, format and columns of another table; exits like `rekey`.

    Example: enrich topics copy users users_avro --cutover -c pipeline.yaml
    """
    from enrich.admin.moves.routes import copy_route

    def route(pipeline: "Pipeline", cluster: "Cluster") -> "tuple[Route, str]":
        return copy_route(pipeline, table, new, cluster), new

    _move(config, table, route, follow, cutover, (quiet, wait), json, deadline)


def _move(
    config: Path,
    table: str,
    route_of: "Callable[[Pipeline, Cluster], tuple[Route, str]]",
    follow: bool,
    cutover: bool,
    rest: tuple[float, float],
    as_json: bool,
    deadline: float,
) -> None:
    from enrich.admin.cluster import Cluster
    from enrich.admin.moves.move import Move
    from enrich.admin.moves.verifying import record_move, verify
    from enrich.config import load

    pipeline = load(config)
    cluster = Cluster(pipeline.kafka, deadline)
    route, becomes = route_of(pipeline, cluster)
    started = time.monotonic()
    verified: Verified | None = None
    is_quiet = True
    with counting(f"{route.source} -> {route.target}") as report, closing(Move(cluster, route, report)) as move:
        move.catch_up()
        if cutover:
            is_quiet = move.wait_for_quiet(*rest)
            verified = verify(cluster, route, report) if is_quiet else None
        elif follow:
            move.follow()
    done = verified is not None and not verified.differences
    if verified is not None and done:
        old, new = (str(pipeline.tables[name].format) for name in (table, becomes))
        record_move(cluster, route, verified, old, new)
    fields = {
        "source": route.source,
        "target": route.target,
        **vars(move.moved),
        "quiet": is_quiet if cutover else None,
        "keys": None if verified is None else verified.keys,
        "differences": None if verified is None else verified.differences,
        "examples": None if verified is None else list(verified.examples),
        "done": done,
        "seconds": round(time.monotonic() - started, 3),
    }
    print_json(fields) if as_json else _show(fields, cutover)
    if cutover and not done:
        raise typer.Exit(DIFFERENCE)


def _show(fields: dict[str, Any], cutover: bool) -> None:
    resumed = ", continuing where the last run ended" if fields["resumed"] else ""
    typer.echo(f"{fields['records']:,} records moved from {fields['source']} to {fields['target']}{resumed}")
    if fields["without_key"]:
        typer.echo(f"{fields['without_key']:,} records without a key stay behind: they can become no rows")
    if fields["split_keys"]:
        typer.echo(f"{fields['split_keys']:,} keys were in several partitions, and are in one now")
    if not cutover:
        typer.echo("next: run it again to copy new records; with --cutover it compares all keys and finishes")
    elif not fields["quiet"]:
        typer.echo("somebody still writes to the old topic: stop the writers, then run it again")
    elif fields["differences"]:
        named = ", ".join(map(visible, fields["examples"]))
        typer.echo(
            f"{fields['differences']:,} keys differ, such as {named}: run it again; if they stay, name a new target"
        )
    else:
        typer.echo(f"all {fields['keys']:,} keys are the same in both topics")
        typer.echo(
            f"next: name topic {fields['target']} in the configuration, of the writers first, then of the readers"
        )

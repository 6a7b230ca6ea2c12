"""`enrich observe`: the program `observe_service` judges, and these commands read what it has written."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.cli.options import ConfigFile, seconds_of
from enrich.cli.options import JsonLines as AsJson
from enrich.cli.output import folding
from enrich.cli.services.programs import become_program
from enrich.cli.services.statuses import loaded_with

if TYPE_CHECKING:
    from enrich.config import Pipeline
    from enrich.verdict import MinuteVerdict

app = typer.Typer(no_args_is_help=True, help="Says what was lost, how late events were, and which minutes were up.")

Route = Annotated[str | None, typer.Option(help="Only ways through the pipeline whose name has this in it.")]
For = Annotated[str, typer.Option("--for", metavar="DURATION", help="How far back, such as 30m or 1d.")]
EveryName = Annotated[bool, typer.Option("--all", help="Name every range of lost events, not only the first 20.")]

_STATE_COLORS = {"settled": "green", "open": "yellow", "unknown": "magenta"}
_UP_COLORS = {"up": "green", "down": "red", "unknown": "magenta"}


@app.command()
def run(context: typer.Context, config: ConfigFile) -> None:
    """Judges the pipeline's minutes, raises alarms and serves the page until it is stopped.

    Example: enrich observe run -c pipeline.yaml
    """
    become_program(context, "observe_service", "-c", str(config))


@app.command()
def loss(
    config: ConfigFile,
    route: Route = None,
    past: For = "30m",
    every_name: EveryName = False,
    json: AsJson = False,
) -> None:
    """Shows minute by minute what came, what was delivered, and by name what was lost; exits with 1 if anything was.

    Example: enrich observe loss -c pipeline.yaml --for 1h
    """
    from enrich.base.exits import DIFFERENCE
    from enrich.base.json_lines import print_json
    from enrich.verdict.showing import as_json

    found = _verdicts(config, route, past)
    if json:
        for verdict in found:
            print_json(as_json(verdict, every_name=every_name))
    else:
        _print_loss(found, every_name=every_name)
    if any(verdict.total("lost") for verdict in found):
        raise typer.Exit(DIFFERENCE)


@app.command()
def lag(config: ConfigFile, route: Route = None, past: For = "30m", json: AsJson = False) -> None:
    """Shows how late events were at each node, over all minutes of the time.

    Example: enrich observe lag -c pipeline.yaml --for 10m
    """
    from enrich.base.json_lines import print_json

    rows = [*_lags(_verdicts(config, route, past))]
    if json:
        for row in rows:
            print_json(row)
    else:
        _print_lags(rows)


@app.command()
def availability(
    config: ConfigFile,
    route: Route = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days back, today included.")] = 7,
    json: AsJson = False,
) -> None:
    """Shows of each day how many minutes were up, in nines, and names those that were down; exits with 1 if a day has
    too few.

    Example: enrich observe availability -c pipeline.yaml --days 30
    """
    from enrich.base.exits import DIFFERENCE
    from enrich.base.json_lines import print_json

    rows = [*_days(config, route, days)]
    if json:
        for row in rows:
            print_json(row)
    else:
        _print_days(rows)
    if any(not row["is_kept"] for row in rows):
        raise typer.Exit(DIFFERENCE)


@app.command()
def audit(
    context: typer.Context,
    config: ConfigFile,
    day: Annotated[str, typer.Option(metavar="DAY", help="The day, by UTC, such as 2026-01-31.")],
    route: Route = None,
    delivered: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What the endpoints have, as their requests' header enrich-origins said: ranges of origins, by commas "
            "or lines. Without it, what was read and is in no topic counts as delivered.",
        ),
    ] = None,
    every_name: EveryName = False,
    json: AsJson = False,
    master: Annotated[str, typer.Option(help="Spark's master: local[*], spark://host:7077, yarn, ...")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting for Spark.")] = None,
) -> None:
    """Finds a day's losses in the topics of its events, whatever the nodes said, and compares them with the verdicts;
    exits with 1 if anything was lost or differs.

    Example: enrich observe audit -c pipeline.yaml --day 2026-01-31
    """
    given = {"--route": route, "--delivered": delivered, "--master": master}
    words = ["-c", str(config), "--day", day]
    words += [word for name, value in given.items() if value is not None for word in (name, str(value))]
    words += [word for each in conf or [] for word in ("--conf", each)]
    become_program(context, "jobs.audit", *words, all=every_name, json=json)


@app.command()
def announce(
    config: ConfigFile,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What is going to be done, for whoever looks at the page.")
    ],
    lasts: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long it takes, such as 30m.")] = "30m",
) -> None:
    """Announces an action: until it is over the observer wakes nobody for what it may cause. Losses are told anyway.

    Example: enrich observe announce -c pipeline.yaml --for 15m "new brokers"
    """
    from enrich.admin.observing import announced

    until = announced(_observed(config), text, seconds_of(lasts, "--for"))
    typer.echo(f"announced until {until}: alarms are quiet, but for losses")


@app.command()
def trace(
    config: ConfigFile,
    origin: Annotated[str, typer.Argument(metavar="ORIGIN", help="topic/partition/offset, as ingest answers it.")],
    json: AsJson = False,
) -> None:
    """Shows which nodes have seen an event, and what became of it there; exits with 1 if it is not delivered.

    Example: enrich observe trace -c pipeline.yaml plays.raw/0/1234
    """
    from enrich.admin.observing import is_delivered, traced
    from enrich.base.exits import DIFFERENCE
    from enrich.base.json_lines import print_json
    from enrich.config import load

    pipeline = load(config)
    steps = traced(pipeline, origin)
    if json:
        for step in steps:
            print_json(step)
    else:
        _print_trace(origin, steps)
    if not is_delivered(pipeline, steps):
        raise typer.Exit(DIFFERENCE)


def _observed(config: Path) -> "Pipeline":
    return loaded_with("observe", config, "add one; `observe: {}` takes the defaults")


def _verdicts(config: Path, route: str | None, past: str) -> "Sequence[MinuteVerdict]":
    import time

    from enrich.admin.observing import verdicts_of

    since = int(time.time() - seconds_of(past, "--for")) // 60
    return verdicts_of(_observed(config), since, route)


def _print_loss(verdicts: "Sequence[MinuteVerdict]", *, every_name: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    console = Console(highlight=False)
    for name in dict.fromkeys(verdict.route for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.route == name]
        at = _minutes_shown(own)
        # What no minute has would only take room.
        fates = [fate for fate in _FATES if any(_of_fate(verdict, fate) for verdict in own)]
        numbers = [Column(text, justify="right", no_wrap=True) for text in ("in", "out", "lost", *fates, "p95")]
        table = Table(Column("minute", no_wrap=True), Column("state", no_wrap=True), *numbers)
        for verdict in own:
            lost, p95_ms = verdict.total("lost"), verdict.quantile_ms(0.95)
            state, color = verdict.state.value, _STATE_COLORS[verdict.state]
            if verdict.state == "settled":
                state, color = verdict.up.value, _UP_COLORS[verdict.up]
            table.add_row(
                at[verdict.minute],
                f"[{color}]{state}[/]",
                f"{verdict.came:,}",
                f"{verdict.went:,}",
                f"[red]{lost:,}[/]" if lost else "0",
                *(f"{_of_fate(verdict, fate):,}" for fate in fates),
                "" if p95_ms is None else f"{p95_ms:,.0f} ms",
            )
        console.print(f"[bold]{escape(name)}[/]")
        console.print(table)
        for verdict in own:
            for note in _notes(verdict, every_name=every_name):
                console.print(f"{at[verdict.minute]}  {escape(note)}")
    if not verdicts:
        console.print("there is no verdict in this time: is an observer running? enrich observe run -c FILE")


def _minutes_shown(verdicts: "Sequence[MinuteVerdict]") -> dict[int, str]:
    """With the day, if they are of several: a minute of today is not one of yesterday."""
    from enrich.verdict import minute_text

    texts = {verdict.minute: minute_text(verdict.minute)[:16] for verdict in verdicts}
    is_one_day = len({text[:10] for text in texts.values()}) == 1
    return {minute: text[11:] if is_one_day else text.replace("T", " ") for minute, text in texts.items()}


_FATES = ("unknown", "open", "dropped", "dead", "waiting", "late", "duplicates")


def _of_fate(verdict: "MinuteVerdict", fate: str) -> int:
    return verdict.late if fate == "late" else verdict.total(fate)


def _notes(verdict: "MinuteVerdict", *, every_name: bool) -> Iterable[str]:
    from enrich.verdict.showing import MOST_SHOWN

    yield from filter(None, [verdict.reason, verdict.why])
    names, _ = verdict.named("lost")
    shown = names if every_name else names[:MOST_SHOWN]
    if shown:
        more = verdict.total("lost") - _origins(shown)
        yield f"lost: {', '.join(shown)}{f' and {more:,} more' if more > 0 else ''}"


def _origins(names: Iterable[str]) -> int:
    from enrich.verdict.minute import range_of

    return sum(last - first + 1 for _, _, first, last in map(range_of, names))


def _lags(verdicts: "Sequence[MinuteVerdict]") -> Iterable[dict[str, Any]]:
    from enrich.tally.lags import NO_LAG

    for name in dict.fromkeys(verdict.route for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.route == name and verdict.hops]
        for index, hop in enumerate(own[0].hops):
            whole = NO_LAG
            for verdict in own:
                whole += verdict.hops[index].lag
            row: dict[str, Any] = {"route": name, "kind": hop.kind, "node": hop.name, "minutes": len(own)}
            for key, histogram in (("in", whole.came), ("out", whole.went), ("took", whole.took)):
                for share in (50, 95, 99):
                    row[f"{key}_p{share}_ms"] = histogram.quantile(share / 100)
            yield row


def _print_lags(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    console = Console(highlight=False)
    for name in dict.fromkeys(row["route"] for row in rows):
        columns = (Column(key, justify="right", no_wrap=True) for key in ("in", "out", "took"))
        table = Table("node", *columns)
        for row in rows:
            if row["route"] == name:
                cells = [[row[f"{key}_p{share}_ms"] for share in (50, 95, 99)] for key in ("in", "out", "took")]
                shown = ("" if values[0] is None else "/".join(f"{v:,.0f}" for v in values) for values in cells)
                table.add_row(escape(f"{row['kind']} {row['node']}"), *shown)
        console.print(f"[bold]{escape(name)}[/]: p50/p95/p99 in ms")
        console.print(table)
    if not rows:
        console.print("there is no verdict in this time: is an observer running? enrich observe run -c FILE")


def _days(config: Path, route: str | None, days: int) -> Iterable[dict[str, Any]]:
    import time

    from enrich.admin.observing import summaries_of
    from enrich.verdict import day_of, minute_text, nines
    from enrich.verdict.days import PER_DAY
    from enrich.verdict.minute import State, Up

    pipeline = _observed(config)
    wanted = pipeline.observe.sla.nines if pipeline.observe is not None else 0
    today = int(time.time()) // 86_400
    judged: dict[str, dict[int, list[tuple[int, Up]]]] = {}
    for minute in summaries_of(pipeline, (today - days + 1) * PER_DAY, route):
        if minute.state is not State.OPEN or minute.up is not Up.UNKNOWN:
            own = judged.setdefault(minute.route, {}).setdefault(minute.minute // PER_DAY, [])
            own.append((minute.minute, minute.up))
    for name, by_day in judged.items():
        for day in range(today - days + 1, today + 1):
            if day in by_day:
                found = day_of(by_day[day])
                yield {
                    "route": name,
                    "day": minute_text(day * PER_DAY)[:10],
                    "up": found.up,
                    "down": [minute_text(minute) for minute in found.down],
                    "unknown": [minute_text(minute) for minute in found.unknown],
                    "share": found.share,
                    "nines": nines(len(found.down)) if found.share is not None else None,
                    "is_kept": nines(len(found.down)) >= wanted,
                }


def _print_days(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    console = Console(highlight=False)
    for name in dict.fromkeys(row["route"] for row in rows):
        heads = [Column(head, justify="right") for head in ("up", "down", "unknown", "share", "nines")]
        table = Table("day", *heads, "minutes that were down")
        for row in rows:
            if row["route"] != name:
                continue
            down = [minute[11:16] for minute in row["down"]]
            more = f" and {len(down) - 10} more" if len(down) > 10 else ""
            nines = row["nines"]
            table.add_row(
                row["day"],
                f"{row['up']:,}",
                f"[red]{len(down):,}[/]" if down else "0",
                f"{len(row['unknown']):,}",
                "" if row["share"] is None else f"{row['share']:.3%}",
                "" if nines is None else f"[{'green' if row['is_kept'] else 'red'}]{'all' if nines == 9 else nines}[/]",
                ", ".join(down[:10]) + more,
            )
        console.print(f"[bold]{escape(name)}[/]")
        console.print(table)
    if not rows:
        console.print("there is no verdict in this time: is an observer running? enrich observe run -c FILE")


def _print_trace(origin: str, steps: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    if not steps:
        console.print(f"no node has said anything of {escape(origin)} in the last two days")
        return
    table = Table(*folding("node", "route", "what became of it", "reported", "minute"))
    for step in steps:
        table.add_row(*(escape(str(step[key] or "")) for key in ("node", "route", "what", "at", "minute")))
    console.print(table)

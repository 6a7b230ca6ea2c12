"""`enrich rate`: how much a pipeline can take."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.cli.options import ConfigFile, seconds_of
from enrich.cli.options import JsonLines as AsJson

if TYPE_CHECKING:
    pass

app = typer.Typer(no_args_is_help=True, help="Finds out how much a pipeline can take before its promise breaks.")


@app.command()
def run(
    config: ConfigFile,
    events: Annotated[Path, typer.Option(help="File of events, one JSON object a line, that are sent over and over.")],
    route: Annotated[
        str | None, typer.Option(help="Part of the name of the way to rate, if there are several.")
    ] = None,
    first: Annotated[int, typer.Option(min=1, help="Events a second to begin with.")] = 500,
    most: Annotated[int, typer.Option(min=1, help="Events a second that are never exceeded.")] = 1_000_000,
    step: Annotated[str, typer.Option(metavar="DURATION", help="How long each rate is held.")] = "30s",
    p95: Annotated[str | None, typer.Option(metavar="DURATION", help="Default: `observe.sla.p95`, or 1s.")] = None,
    token: Annotated[str | None, typer.Option(envvar="ENRICH_RATE_TOKEN", help="Token of the entry.")] = None,
    json: AsJson = False,
) -> None:
    """Sends events at rising rates into a pipeline that runs, until its p95 end to end breaks, and keeps the rating.

    The events are real to the pipeline: its endpoints get them. An event's time is when it was due. A run whose
    generator was late is void.

    Example: enrich rate run -c pipeline.yaml --events plays.jsonl --first 1000
    """
    from enrich.admin.cluster import Cluster
    from enrich.admin.rating.climbing import Void
    from enrich.admin.rating.rating import Condition, Rater, arrivals_of, keep
    from enrich.admin.rating.ways import way_to_rate
    from enrich.base.errors import ConfigError
    from enrich.base.json_lines import print_json
    from enrich.config import load

    pipeline = load(config)
    sla_ms = 1000.0 if pipeline.observe is None else pipeline.observe.sla.p95.total_seconds() * 1000
    p95_ms = sla_ms if p95 is None else _seconds(p95, "--p95") * 1000
    condition = Condition(p95_ms, _seconds(step, "--step"), first, most)
    cluster = Cluster(pipeline.kafka)
    way = way_to_rate(pipeline, cluster, route, token)
    samples = way.samples(events)

    def report(text: str) -> None:
        if not json:
            typer.echo(text, err=True)

    report(f"rating {way.name}: p95 within {p95_ms:,.0f} ms, {condition.step_s:g} s a rate")
    arrivals = arrivals_of(pipeline, cluster, way.last)
    try:
        with arrivals.watched():
            rater = Rater(arrivals, condition, samples, way.new_target, way.per_request(samples), report)
            found = rater.run()
    except Void as error:
        raise ConfigError(
            f"the run is void: {error}",
            next_step=f"{error.next_step}; nothing was kept",
        ) from error
    rating = keep(pipeline, cluster, way, condition, found)
    if json:
        print_json(rating)
    else:
        _print([rating])


@app.command()
def show(config: ConfigFile, json: AsJson = False) -> None:
    """Shows the newest rating of each way, with the rates that were tried.

    Example: enrich rate show -c pipeline.yaml
    """
    from enrich.admin.cluster import Cluster
    from enrich.admin.rating.rating import kept
    from enrich.admin.rights import needs
    from enrich.base.json_lines import print_json
    from enrich.config import load

    pipeline = load(config)
    cluster = Cluster(pipeline.kafka)
    with needs("READ", f"topic {pipeline.ratings_topic}"):
        ratings = kept(pipeline, cluster.topics, cluster.connection)
    if json:
        for rating in ratings:
            print_json(rating)
    else:
        _print(ratings)


def _seconds(text: str, option: str) -> float:
    from enrich.base.errors import ConfigError

    found = seconds_of(text, option)
    if not found:
        raise ConfigError("must be more than 0", where=option)
    return found


def _print(ratings: list[dict[str, Any]] | Any) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from enrich.verdict import minute_text

    console = Console(highlight=False)
    if not ratings:
        console.print("nobody has rated this pipeline: enrich rate run -c FILE --events FILE")
    for rating in ratings:
        least = "" if rating["is_bounded"] else "at least "
        limit = f"p95 within {rating['condition']['p95_ms']:,.0f} ms"
        at = minute_text(rating["at_ms"] // 60_000)
        console.print(
            f"[bold]{escape(rating['route'])}[/]: {least}{rating['rating_per_s']:,} events/s, {limit}, at {at}"
        )
        numbers = [Column(head, justify="right", no_wrap=True) for head in ("events/s", "taken", "left", "p95")]
        table = Table(*numbers, "")
        for step in rating["steps"]:
            p95 = "" if step["p95_ms"] is None else f"{step['p95_ms']:,.0f} ms"
            table.add_row(
                f"{step['rate']:,.0f}",
                f"{step['taken']:,.0f}",
                f"{step['left']:,.0f}",
                p95,
                "holds" if step["breaks"] is None else escape(step["breaks"]),
            )
        console.print(table)

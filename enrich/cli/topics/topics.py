"""`enrich topics`: which topics a pipeline needs, what their settings should be, and whether they are so."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE, WOULD_LOSE_DATA
from enrich.base.json_lines import print_json
from enrich.base.printable import visible
from enrich.cli.options import KAFKA_S, ConfigFile, JsonLines, KafkaDeadline
from enrich.cli.output import counting, says_yes

if TYPE_CHECKING:
    from enrich.admin.topics.checking import Checked
    from enrich.admin.topics.planning import Plan, Step

app = typer.Typer(no_args_is_help=True, help="The topics of a pipeline: planned, made, checked, moved.")

Names = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; without any, all.")]
_SIGNS = {"create": "[green]+[/]", "record": "[green]+[/]", "set": "[yellow]~[/]", "partitions": "[yellow]~[/]"}


@app.command()
def plan(config: ConfigFile, topics: Names = None, json: JsonLines = False, deadline: KafkaDeadline = KAFKA_S) -> None:
    """Shows what must change for the topics to be as the configuration wants them; exits with 1 if anything must.

    Example: enrich topics plan -c pipeline.yaml
    """
    from enrich.admin.topics.planning import plan_for

    cluster, wanted = _start(config, topics, deadline)
    found = plan_for(cluster, wanted)
    _show_plan(found, json)
    if found.steps:
        raise typer.Exit(DIFFERENCE)


@app.command()
def apply(
    config: ConfigFile,
    topics: Names = None,
    plan_name: Annotated[
        str | None, typer.Option("--plan", metavar="NAME", help="Only if it is still the plan of this name.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Creates and changes topics, exactly as the plan shows; exits with 4 if it must refuse a part of it.

    Example: enrich topics apply --plan 1c9a7be2d405 -c pipeline.yaml
    """
    from enrich.admin.topics.applying import apply as apply_plan
    from enrich.admin.topics.planning import plan_for
    from enrich.base.errors import WouldLoseData

    cluster, wanted = _start(config, topics, deadline)
    found = plan_for(cluster, wanted)
    if plan_name is not None and plan_name != found.name:
        raise WouldLoseData(
            f"the plan is no longer {plan_name}, it is {found.name}",
            next_step="review it: enrich topics plan",
        )
    _show_plan(found, json, done=yes or plan_name is not None)
    if not found.steps:
        return
    if found.to_do and not yes and plan_name is None:
        _ask()
    done = 0

    def report(step: "Step") -> None:
        nonlocal done
        done += 1
        if json:
            print_json({"done": True, **_as_fields(step)})
        else:
            typer.echo(f"{step.topic}: {step.what} is {step.after}")

    try:
        apply_plan(cluster, wanted, found, report)
    finally:
        if not json:
            typer.echo(f"{done} of {len(found.to_do)} changes made")
    if found.refused:
        raise typer.Exit(WOULD_LOSE_DATA)


@app.command()
def check(
    config: ConfigFile,
    topics: Names = None,
    settings_only: Annotated[bool, typer.Option("--settings-only", help="Do not read the records.")] = False,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Checks topics and their records for everything that makes them unfit for their use; exits with 1 if it finds any.

    Example: enrich topics check users.v1 -c pipeline.yaml
    """
    from enrich.admin.topics.actual import actual_topics
    from enrich.admin.topics.checking import check_topic
    from enrich.admin.topics.notes import read_notes
    from enrich.admin.topics.planning import as_others_are, needed

    cluster, wanted = _start(config, topics, deadline)
    actual, notes = actual_topics(cluster, needed(wanted)), read_notes(cluster)
    bad = 0
    with counting("checking") as report:
        for name, topic in as_others_are(cluster, wanted, actual).items():
            checked = check_topic(cluster, topic, actual.get(name), notes.get(name), report, deep=not settings_only)
            bad += bool(checked.findings)
            _show_checked(checked, json)
    if bad:
        raise typer.Exit(DIFFERENCE)


@app.command()
def describe(
    config: ConfigFile, topics: Names = None, json: JsonLines = False, deadline: KafkaDeadline = KAFKA_S
) -> None:
    """Shows the pipeline's topics: use, partitions, replicas, offsets, format and their own settings.

    Example: enrich topics describe users.v1 -c pipeline.yaml
    """
    from enrich.admin.topics.actual import actual_topics
    from enrich.admin.topics.notes import read_notes

    cluster, wanted = _start(config, topics, deadline)
    actual, notes = actual_topics(cluster, list(wanted)), read_notes(cluster)
    for name, topic in wanted.items():
        found, note = actual.get(name), notes.get(name)
        fields: dict[str, Any] = {"topic": name, "exists": found is not None, "used_by": list(topic.used_by)}
        if found is not None:
            starts, ends = cluster.topics.start_offsets(name), cluster.topics.end_offsets(name)
            recorded = note if note is not None and note.topic_id == found.topic_id else None
            fields |= {
                "topic_id": found.topic_id,
                "replication": found.replication,
                "format": None if recorded is None else recorded.format,
                "moved_to": None if recorded is None else recorded.moved_to,
                "rights": None if found.rights is None else sorted(found.rights),
                "settings": {key: found.settings[key] for key in sorted(found.own_settings)},
                "partitions": [
                    {
                        "partition": part.number,
                        "leader": part.leader,
                        "in_sync": part.in_sync,
                        "start": starts[part.number],
                        "end": ends[part.number],
                    }
                    for part in found.partitions
                ],
            }
        print_json(fields) if json else _show_description(fields)
    if len(actual) < len(wanted):
        raise typer.Exit(DIFFERENCE)


def _start(config: Path, names: list[str] | None, deadline: float) -> Any:
    """The cluster, and the wanted topics with these names."""
    from enrich.admin.cluster import Cluster
    from enrich.admin.topics.actual import matching_topics, topics_of_tables
    from enrich.admin.topics.wanted import wanted_topics
    from enrich.base.errors import ConfigError
    from enrich.config import load

    pipeline = load(config)
    cluster = Cluster(pipeline.kafka, deadline)
    wanted = wanted_topics(pipeline, matching_topics(pipeline, cluster), topics_of_tables(pipeline, cluster))
    for name in names or ():
        if name not in wanted:
            raise ConfigError(
                f"the pipeline names no topic `{name}`",
                where=str(config),
                next_step=f"choose from {', '.join(wanted) or 'none: it has no topics'}",
            )
    chosen = {name: wanted[name] for name in names} if names else wanted
    return cluster, chosen


def _ask() -> None:
    import sys

    from enrich.base.errors import WouldLoseData

    if not sys.stdin.isatty():
        raise WouldLoseData("nothing was changed", next_step="add --yes, or --plan and the plan's name, to do it")
    if not says_yes("make these changes?"):
        raise typer.Exit(WOULD_LOSE_DATA)


def _as_fields(step: "Step") -> dict[str, Any]:
    return {
        "step": step.kind.value,
        "topic": step.topic,
        "what": step.what,
        "before": step.before,
        "after": step.after,
        "note": step.note,
    }


def _show_plan(plan: "Plan", as_json: bool, *, done: bool = False) -> None:
    if as_json:
        for step in plan.steps if not done else plan.refused:
            print_json(_as_fields(step))
        print_json({"plan": plan.name, "to_do": len(plan.to_do), "refused": len(plan.refused), "topics": plan.topics})
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    topic = None
    for step in plan.steps:
        if step.topic != topic:
            topic = step.topic
            console.print(f"[bold]{escape(topic)}[/]")
        change = f"{step.after}" if step.before is None else f"{step.before} -> {step.after}"
        note = "" if step.note is None else f"  [dim]({escape(step.note)})[/]"
        console.print(f"  {_SIGNS.get(step.kind, '[red]![/]')} {step.what}: {escape(change)}{note}")
    if not plan.steps:
        console.print(f"[green]nothing to do:[/] {plan.topics} topics are as the configuration wants them")
        return
    refused = f", [red]{len(plan.refused)} refused[/]" if plan.refused else ""
    console.print(f"plan {plan.name}: {len(plan.to_do)} changes{refused}")


def _show_checked(checked: "Checked", as_json: bool) -> None:
    if as_json:
        shares = checked.shares
        print_json(
            {
                "topic": checked.topic,
                "ok": not checked.findings,
                "findings": [
                    {"problem": one.problem.value, "what": one.what, "next": one.next_step} for one in checked.findings
                ],
                "records": None if shares is None else shares.records,
                "keys": None if shares is None else shares.keys,
                "live_keys": None if shares is None else shares.live,
                "superseded": None if shares is None else shares.superseded,
                "sampled": None if shares is None else shares.sampled,
            }
        )
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    counted = ""
    if checked.shares is not None:
        shares = checked.shares
        about = "" if shares.sampled == 1 else "about "
        counted = f": {shares.records:,} records, {about}{shares.live:,} keys, {about}{shares.superseded:,} superseded"
    verdict = "[green]good[/]" if not checked.findings else f"[red]{len(checked.findings)} problems[/]"
    console.print(f"[bold]{escape(checked.topic)}[/] {verdict}{counted}")
    for one in checked.findings:
        console.print(f"  [red]{one.problem}[/]: {escape(visible(one.what))}")
        console.print(f"    next: {escape(one.next_step)}")


def _show_description(fields: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(fields['topic'])}[/]  {escape(', '.join(fields['used_by']))}")
    if not fields["exists"]:
        console.print("  [red]does not exist[/]: enrich topics apply")
        return
    records = sum(part["end"] - part["start"] for part in fields["partitions"])
    format_ = fields["format"] or "not recorded"
    console.print(f"  {len(fields['partitions'])} partitions x {fields['replication']}, format {format_}")
    console.print(f"  at most {records:,} records, id {fields['topic_id']}")
    if fields["moved_to"]:
        console.print(f"  moved to topic {escape(fields['moved_to'])}")
    for name, value in fields["settings"].items():
        console.print(f"  {name}={escape(value)}")

"""`enrich dlq`: shows events and rows that could not be processed, sends them back, removes them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import json_text, print_json
from enrich.base.printable import visible
from enrich.cli.options import KAFKA_S, ConfigFile, JsonLines, KafkaDeadline, Purges
from enrich.cli.output import counting, readable, text_of, time_text
from enrich.cli.rejected import kit

if TYPE_CHECKING:
    from confluent_kafka import Message

    from enrich.admin.cluster import Cluster
    from enrich.admin.rejected.choosing import Selection
    from enrich.admin.rejected.letter import Letter
    from enrich.admin.rejected.replaying import Replayed
    from enrich.config import Pipeline

app = typer.Typer(no_args_is_help=True, help="Events and rows that could not be processed.")

_SHOWN = 20
_NONE = "no dead letter of enrich"

Names = Annotated[
    list[str] | None, typer.Argument(metavar="LETTER", help="Letters by name: TOPIC/PARTITION/OFFSET or key.")
]
Dlqs = Annotated[list[str] | None, typer.Option("--dlq", metavar="TOPIC", help="Only this DLQ; may be repeated.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Only letters whose reason has this text in it.")]
Stage = Annotated[
    str | None, typer.Option("--stage", help="Only letters of this stage, route or ingest of the pipeline.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Also if the key has a newer record, or the event cannot be checked again.")
]
All = Annotated[bool, typer.Option("--all", help="All letters, if nothing else is chosen.")]


@app.command("list")
def list_(
    config: ConfigFile,
    dlq: Dlqs = None,
    reason: Reason = None,
    stage: Stage = None,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Counts the events and rows that could not be processed, by reason; with --json lists every letter.

    Example: enrich dlq list -c pipeline.yaml
    """
    groups: dict[tuple[str, str, str], list[Any]] = {}
    others = _Others(json)
    selection = _selection(None, reason, stage)
    # Other records have no reason and no stage that a selection could match.
    on_other = others.add if selection.is_empty else _ignore
    for letter in _letters(_start(config, deadline), dlq, selection, on_other):
        if json:
            print_json(_as_fields(letter))
            continue
        group = groups.setdefault((letter.dlq, letter.stage, letter.reason), [0, letter.name, 0])
        group[0] += 1
        group[2] = max(group[2], letter.timestamp)
    if not json:
        _show_groups(groups)
        others.show()


@app.command()
def show(
    config: ConfigFile,
    name: Annotated[str, typer.Argument(metavar="LETTER", help="TOPIC/PARTITION/OFFSET, or its whole key.")],
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Shows a whole letter: reason, key, headers, bytes, columns that can be decoded; exits with 1 if there is none.

    Example: enrich dlq show plays.raw/3/4711 -c pipeline.yaml
    """
    from enrich.admin.rejected.decoding import decoded_pieces

    started = _start(config, deadline)
    found = list(_letters(started, None, _selection([name], None, None)))
    for letter in found:
        pieces = decoded_pieces(started[0], letter)
        if json:
            content = kit.contents(letter.key, letter.value, pieces, headers=dict(letter.headers))
            print_json(_as_fields(letter) | content)
        else:
            _show_letter(letter, pieces)
    if not found:
        typer.echo(f"there is no letter {name}", err=True)
        raise typer.Exit(DIFFERENCE)


@app.command()
def replay(
    config: ConfigFile,
    names: Names = None,
    dlq: Dlqs = None,
    reason: Reason = None,
    stage: Stage = None,
    every: All = False,
    force: Force = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")] = False,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Sends letters back to their topics, or to the routes that gave them up, each once; exits with 1 if some stay.

    Example: enrich dlq replay --reason "missing user" -c pipeline.yaml
    """
    from enrich.admin.rejected.choosing import chosen_dlqs
    from enrich.admin.rejected.replaying import Replay
    from enrich.admin.rejected.ways import Ways

    selection = _chosen(names, reason, stage, every)
    pipeline, cluster = _start(config, deadline)
    selection = replace(selection, pipeline=pipeline.name)
    skipped, ways = 0, Ways(pipeline, cluster)
    with counting("replaying") as report:
        for topic in chosen_dlqs(pipeline, dlq or ()):
            outcome = Replay(cluster, topic, ways, force=force, report=report).run(selection, dry=dry_run)
            skipped += sum(outcome.skipped.values())
            _show_outcome(topic, outcome, json, dry=dry_run)
    if skipped:
        raise typer.Exit(DIFFERENCE)


@app.command()
def purge(
    config: ConfigFile,
    names: Names = None,
    dlq: Dlqs = None,
    reason: Reason = None,
    stage: Stage = None,
    every: All = False,
    yes: Purges = False,
    json: JsonLines = False,
    deadline: KafkaDeadline = KAFKA_S,
) -> None:
    """Removes the letters that it lists, for ever; without --yes it only lists them and exits with 4.

    Example: enrich dlq purge --reason "missing user" --yes -c pipeline.yaml
    """
    from enrich.admin.rejected.replaying import purge as purge_letters

    started = _start(config, deadline)
    by_dlq: dict[str, list[tuple[str, int]]] = {}
    told: dict[str, list[str]] = {}
    """Of each DLQ the lines that say that its letters are purged, once they are."""
    for letter in _letters(started, dlq, _chosen(names, reason, stage, every)):
        listed = by_dlq.setdefault(letter.dlq, [])
        listed.append((letter.name, letter.dlq_partition))
        if json and yes:
            told.setdefault(letter.dlq, []).append(json_text({"purged": True, **_as_fields(letter)}))
        elif json:
            print_json({"purged": False, **_as_fields(letter)})
        elif len(listed) <= _SHOWN:
            typer.echo(f"{visible(letter.name)}: {visible(letter.reason)}")
    number = sum(map(len, by_dlq.values()))
    kit.require_yes("letters for ever", number, yes=yes)
    for topic, listed in by_dlq.items():
        purge_letters(started[1], topic, listed)
        for line in told.get(topic, ()):
            typer.echo(line)
    if not json:
        typer.echo(f"{number:,} letters are purged")


def _start(config: Path, deadline: float) -> "tuple[Pipeline, Cluster]":
    from enrich.admin.cluster import Cluster
    from enrich.config import load

    pipeline = load(config)
    return pipeline, Cluster(pipeline.kafka, deadline)


def _selection(names: list[str] | None, reason: str | None, stage: str | None) -> "Selection":
    from enrich.admin.rejected.choosing import Selection

    return Selection(frozenset(names or ()), reason, stage)


def _chosen(names: list[str] | None, reason: str | None, stage: str | None, every: bool) -> "Selection":
    selection = _selection(names, reason, stage)
    if selection.is_empty and not every:
        raise kit.nothing_chosen("name letters, or give --reason, --stage or --all")
    return selection


def _ignore(_: "Message") -> None:
    """For records that are not to be shown."""


def _letters(
    started: "tuple[Pipeline, Cluster]",
    dlq: list[str] | None,
    selection: "Selection",
    other: "Callable[[Message], None] | None" = None,
) -> "Iterator[Letter]":
    from enrich.admin.rejected.choosing import chosen_dlqs, letters

    pipeline, cluster = started
    selection = replace(selection, pipeline=pipeline.name)
    with counting("reading dead letters") as report:
        for topic in chosen_dlqs(pipeline, dlq or ()):
            yield from letters(cluster, topic, selection, report, other=other or _ignore)


def _as_fields(letter: "Letter") -> dict[str, Any]:
    return {
        "dlq": letter.dlq,
        "letter": letter.name,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "reason": letter.reason,
        "stage": letter.stage,
        "lookup": letter.lookup,
        "timestamp": letter.timestamp,
        "length": letter.length,
        "cut": letter.is_cut,
        "replays": letter.replays,
    }


def _show_groups(groups: dict[tuple[str, str, str], list[Any]]) -> None:
    if not groups:
        typer.echo("there are no dead letters")
        return
    ordered = sorted(groups.items(), key=lambda item: -item[1][0])
    rows = ((*group, f"{number:,}", first, time_text(newest)) for group, (number, first, newest) in ordered)
    kit.show_groups(("dlq", "stage", "reason", "letters", "first", "newest"), rows)


class _Others:
    """Records of a DLQ that are no letters. They are reported, since the list of letters does not show them."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._found: dict[str, tuple[int, str]] = {}
        """DLQ -> number of records, and partition/offset of the first one."""

    def add(self, record: "Message") -> None:
        topic, partition, offset = str(record.topic()), record.partition(), record.offset()
        if self._as_json:
            origin = {"topic": topic, "partition": partition, "offset": offset}
            print_json({"dlq": topic, "letter": None, **origin, "reason": _NONE, "timestamp": record.timestamp()[1]})
            return
        number, first = self._found.get(topic, (0, f"{partition}/{offset}"))
        self._found[topic] = number + 1, first

    def show(self) -> None:
        for topic, (number, first) in self._found.items():
            records = "1 record" if number == 1 else f"{number:,} records"
            typer.echo(f"{topic}: {records} besides, from {first} on: {_NONE}; replay and purge ignore them")


def _show_letter(letter: "Letter", pieces: list[Any]) -> None:
    cut = f" (the first {len(letter.value):,} of {letter.length:,} bytes)" if letter.is_cut else ""
    lines = {
        "letter": visible(f"{letter.name} in {letter.dlq}, of {time_text(letter.timestamp)}"),
        "stage": visible(letter.stage if letter.lookup is None else f"{letter.stage}, lookup {letter.lookup}"),
        "reason": visible(letter.reason),
        "replays": str(letter.replays),
        "key": readable(letter.key, "none"),
        "value": readable(letter.value, "") + cut,
    }
    kit.show_record(lines, pieces, letter.headers)


def _show_outcome(dlq: str, outcome: "Replayed", as_json: bool, *, dry: bool) -> None:
    if as_json:
        for letter, newer in outcome.overwrites:
            print_json({"dlq": dlq, "letter": letter.name, "overwrites": str(newer), "key": text_of(letter.key)})
        print_json({"dlq": dlq, "done": not dry, "replayed": outcome.replayed, "skipped": outcome.skipped})
        return
    for letter, newer in outcome.overwrites:
        typer.echo(f"{visible(letter.name)} overwrites {newer}, key {readable(letter.key, 'none')}")
    kit.show_replayed(
        f"{dlq}: {outcome.replayed:,} letters {'could be replayed' if dry else 'replayed'}", outcome.skipped
    )

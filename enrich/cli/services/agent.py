"""`enrich agent`: shows what the host's agent does, and stops it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.exits import DIFFERENCE
from enrich.base.json_lines import print_json
from enrich.cli.options import ConfigFile

if TYPE_CHECKING:
    from enrich.host.ipc.header import Header

app = typer.Typer(no_args_is_help=True, help="The process that keeps a pipeline's tables on this host.")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per table.")]

_STOP_S = 30

Gauges = dict[str, dict[str, float]]
_MAPPED = "enrich_agent_table_mapped"
_MEMORY = "enrich_agent_memory_bytes"


@app.command()
def status(config: ConfigFile, json: AsJson = False) -> None:
    """Shows which tables are ready, why not, and how fresh they are; exits with 1 if one is not ready.

    Example: enrich agent status -c pipeline.yaml
    """
    from enrich.config import load_for_store
    from enrich.host.ipc.store_paths import paths_of
    from enrich.host.reader.spawn import living_agent

    paths = paths_of(load_for_store(config))
    header = living_agent(paths)
    gauges = {} if header is None else _gauges(paths.folder)
    tables = [] if header is None else _described(header, gauges)
    if json:
        for table in tables:
            print_json(table)
    elif header is None:
        typer.echo(f"no agent is running for {paths.folder}; the first reader starts one")
    else:
        _print_people(header, tables)
        _print_memory(gauges)
    if not tables or not all(table["ready"] for table in tables):
        raise typer.Exit(DIFFERENCE)


@app.command()
def stop(config: ConfigFile) -> None:
    """Stops the agent, if one is running. Its rows stay, and the next reader starts another agent.

    Example: enrich agent stop -c pipeline.yaml
    """
    from enrich.config import load_for_store
    from enrich.host.ipc.store_paths import paths_of
    from enrich.host.reader.spawn import living_agent, stop_agent

    paths = paths_of(load_for_store(config))
    header = living_agent(paths)
    if header is None:
        typer.echo("no agent was running")
        return
    stop_agent(paths, header, deadline_s=_STOP_S)
    typer.echo(f"stopped the agent, process {header.pid}")


def _described(header: "Header", gauges: Gauges) -> list[dict[str, Any]]:
    now = time.time()
    read_from = {name: "segments" if value else "rocksdb" for name, value in gauges.get(_MAPPED, {}).items()}
    return [
        {
            "table": name,
            "ready": state.ready,
            "rows": state.rows,
            "quarantined": state.quarantined,
            "complete_through": state.complete_through,
            "behind_s": None if state.complete_through is None else round(now - state.complete_through / 1000, 3),
            "reason": state.reason,
            "set_aside": state.is_set_aside,
            "next_try_s": None if state.next_try is None else round(max(0.0, state.next_try / 1000 - now), 3),
            "read_from": read_from.get(name),
            "progress": dict(state.progress) or None,
            "pid": header.pid,
        }
        for name, state in header.tables.items()
    ]


def _print_people(header: "Header", tables: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"agent: process {header.pid}, store {header.store_id[:8]}, seq {header.generation}.{header.counter}")
    shown = Table("table", "state", "rows", "from", "complete through", "note")
    for table in tables:
        state = "[green]ready[/]" if table["ready"] else "[yellow]not ready[/]"
        if table["set_aside"]:
            state += ", [yellow]set aside[/]"
        behind = "" if table["behind_s"] is None else f"{max(table['behind_s'], 0):.1f} s ago"
        way = table["read_from"] or ""
        note = _note(table)
        if table["set_aside"]:
            note = f"{header.tables[table['table']].tried_again(time.time() * 1000)}: {note}"
        shown.add_row(table["table"], state, f"{table['rows']:,}", way, behind, escape(note))
    console.print(shown)


def _gauges(folder: Path) -> Gauges:
    """The agent's metrics, by name and label; empty if it does not answer."""
    from prometheus_client.parser import text_string_to_metric_families

    from enrich.base.errors import Unreachable
    from enrich.host.ipc.requests import ask
    from enrich.service.page import METRICS

    try:
        page = ask(folder, "GET", METRICS).decode()
    except Unreachable as error:
        typer.echo(f"no metrics: {error}", err=True)
        return {}
    gauges: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            label = sample.labels.get("table") or sample.labels.get("part", "")
            gauges.setdefault(sample.name, {})[label] = sample.value
    return gauges


def _print_memory(gauges: Gauges) -> None:
    if _MEMORY not in gauges:
        return
    mib = {part: f"{size / 2**20:,.0f}" for part, size in gauges[_MEMORY].items()}
    typer.echo(
        f"memory: agent {mib['agent']} of {mib['agent_share']} MiB, loads {mib['loads']} of {mib['loads_share']} MiB, "
        f"{mib['readers_share']} MiB for readers, segments {mib['mapped']} of {mib['mapped_share']} MiB, "
        f"which all share; budget {mib['budget']} MiB"
    )


def _note(table: dict[str, Any]) -> str:
    progress = table["progress"]
    if progress is None or "records" not in progress:
        quarantined = f"{table['quarantined']:,} in quarantine: enrich quarantine list {table['table']}"
        return table["reason"] or (quarantined if table["quarantined"] else "")
    to_come = f"{progress['to_come']:,} to come, " if "to_come" in progress else ""
    return f"loading: {progress['records']:,} records, {to_come}{progress['per_second']:,.0f}/s"

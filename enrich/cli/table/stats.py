"""`enrich table stats`: the size of tables, how far their history reaches back, and what they are read from."""

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enrich.base.json_lines import print_json
from enrich.cli.options import ConfigFile
from enrich.cli.output import time_text
from enrich.cli.table.ready import load_table

if TYPE_CHECKING:
    from enrich.host.reader.stats import TableStats

_MIB = 2**20


def add_commands(app: typer.Typer) -> None:
    app.command("stats")(stats)


def stats(
    config: ConfigFile,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="A table; without it, all.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per table.")] = False,
) -> None:
    """Shows rows, bytes, segments, history, completeness and memory of one table or of all.

    Example: enrich table stats -c pipeline.yaml
    """
    from enrich.config import load
    from enrich.host.reader.stats import table_stats

    pipeline = load(config) if table is None else load_table(config, table)
    names = list(pipeline.tables) if table is None else [table]
    found = list(table_stats(pipeline, names, os.getpid))
    if json:
        for one in found:
            print_json(_fields(one))
    elif table is None:
        _show(found)
    else:
        _show_one(found[0])


def _fields(one: "TableStats") -> dict[str, Any]:
    mapped = one.mapped
    return {
        "table": one.table,
        "ready": one.state.ready,
        "rows": one.state.rows,
        "access": one.access.value,
        "read_from": "rocksdb" if mapped is None else "segments",
        "why_not_segments": one.why_not_mapped,
        "segments": None if mapped is None else mapped.segments,
        "segment_versions": None if mapped is None else mapped.versions,
        "segment_bytes": None if mapped is None else mapped.bytes,
        "segment_bytes_in_memory": one.in_memory,
        "rocksdb_bytes": one.rocks_bytes,
        "history_ms": one.history_ms,
        "floor": one.floor,
        "floors": {str(p): {"offset": floor.offset, "timestamp": floor.timestamp} for p, floor in one.floors.items()},
        "positions": {str(partition): offset for partition, offset in one.positions.items()},
        "complete_through": one.state.complete_through,
    }


def _show(found: "list[TableStats]") -> None:
    """A line for each table. Reasons, which may be long, come below."""
    from rich.console import Console
    from rich.table import Table

    shown = Table("table", "rows", "read from", "segments", "RocksDB", "complete")
    for one in found:
        through = one.state.complete_through
        shown.add_row(
            one.table,
            f"{one.state.rows:,}",
            _way(one),
            "" if one.mapped is None else f"{_mib(one.mapped.bytes)} in {one.mapped.segments}",
            _mib(one.rocks_bytes),
            "" if through is None else f"{max(0.0, time.time() - through / 1000):.1f} s ago",
        )
    console = Console(highlight=False)
    console.print(shown)
    for one in found:
        for why in _remarks(one):
            console.print(f"{one.table}: {why}", markup=False)


def _show_one(one: "TableStats") -> None:
    from enrich.config.types.quantities import duration_text

    mapped = one.mapped
    lines = {
        "state": "ready" if one.state.ready else "not ready",
        "rows": f"{one.state.rows:,}, including deleted ones",
        "complete through": time_text(one.state.complete_through),
        "history": duration_text(timedelta(milliseconds=one.history_ms)),
        "floor": "none: history is complete" if one.floor is None else f"{time_text(one.floor)}, expired before it",
        "read from": f"{_way(one)} (access: {one.access.value})",
        "RocksDB": f"{_mib(one.rocks_bytes)} on disk",
    }
    if mapped is not None:
        lines["segments"] = f"{mapped.segments} with {mapped.versions:,} versions, {_mib(mapped.bytes)}"
        if one.in_memory is not None:
            lines["memory"] = f"{_mib(one.in_memory)} of the segments, once for all workers"
    for name, text in lines.items():
        typer.echo(f"{name:<17} {text}")
    for why in _remarks(one):
        typer.echo(f"{'note':<17} {why}")


def _way(one: "TableStats") -> str:
    return "RocksDB" if one.mapped is None else "segments"


def _remarks(one: "TableStats") -> list[str]:
    return list(dict.fromkeys(why for why in (one.state.reason, one.why_not_mapped) if why is not None))


def _mib(size: int) -> str:
    return f"{size / _MIB:,.1f} MiB"

"""Shared by commands that read a table: starts the agent if there is none, and waits until the table is ready."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enrich.config import Pipeline
    from enrich.host.ipc.header import Header
    from enrich.host.reader.reading import FreshView
    from stores.protocol import TableSpec

DEADLINE_S = 300.0


@contextmanager
def ready_table(config: Path, table: str, deadline_s: float) -> "Iterator[tuple[FreshView, TableSpec]]":
    """The table's view once it is ready. Shows progress on a terminal while it waits."""
    import os

    from enrich.config import load
    from enrich.host.reader.reading import RowsReader

    pipeline = load(config)
    require_table(pipeline, table, config)
    # This process needs the agent, not the terminal that started it.
    reader = RowsReader(pipeline, holder=os.getpid)
    try:
        with _progress(table) as report:
            snapshot = reader.wait_until_ready([table], deadline_s=deadline_s, report=report)
        yield snapshot.table(table), reader.specs[table]
    finally:
        reader.close()


def require_table(pipeline: "Pipeline", table: str, config: Path) -> None:
    from enrich.base.errors import ConfigError

    if table not in pipeline.tables:
        raise ConfigError(
            f"there is no table `{table}`", where=str(config), next_step=f"choose from {', '.join(pipeline.tables)}"
        )


@contextmanager
def _progress(table: str) -> "Iterator[Any]":
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(f"waiting for table {table}") as status:
        yield lambda header: status.update(f"table {table}: {how_far(header, table)}")


def how_far(header: "Header", table: str) -> str:
    state = header.tables[table]
    records = f", {state.progress['records']:,.0f} records" if "records" in state.progress else ""
    return f"{state.reason or 'ready'}{records}"

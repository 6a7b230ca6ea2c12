"""Shared by commands that read a table: loads its configuration, and waits until this host has it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from enrich.cli.output import counting

if TYPE_CHECKING:
    from enrich.config import Pipeline
    from enrich.host.ipc.header import Header
    from enrich.host.reader.views import FreshView
    from enrich.host.tables import TopicTable
    from stores.protocol import TableSpec


@contextmanager
def ready_table(config: Path, table: str, deadline_s: float) -> "Iterator[tuple[FreshView, TableSpec]]":
    """The table's view once it is ready. Starts the agent if there is none. Shows progress on a terminal."""
    from enrich.admin.ready import ready_reader

    with ExitStack() as held:
        with counting(f"table {table}") as report:
            pipeline = load_table(config, table)
            ready = ready_reader(pipeline, table, deadline_s, lambda header: report(how_far(header, table)))
            reader, snapshot = held.enter_context(ready)
        yield snapshot.table(table), reader.specs[table]


def load_table(config: Path, table: str) -> "Pipeline":
    """Raises ConfigError if the pipeline has no such table."""
    from enrich.base.errors import ConfigError
    from enrich.config import load

    pipeline = load(config)
    if table not in pipeline.tables:
        raise ConfigError(
            f"there is no table `{table}`", where=str(config), next_step=f"choose from {', '.join(pipeline.tables)}"
        )
    return pipeline


def load_topic_table(
    config: Path, table: str, next_step: str = "its loader reads all rows again anyway"
) -> "tuple[Pipeline, TopicTable]":
    """Raises ConfigError, with this next step, also for a table that has a loader."""
    from enrich.base.errors import ConfigError
    from enrich.host.tables import topic_tables

    pipeline = load_table(config, table)
    found = topic_tables(pipeline).get(table)
    if found is None:
        raise ConfigError(f"table `{table}` has a loader, not a topic", where=str(config), next_step=next_step)
    return pipeline, found


def how_far(header: "Header", table: str) -> str:
    state = header.tables[table]
    records = f", {state.progress['records']:,.0f} records" if "records" in state.progress else ""
    return f"{state.reason or 'ready'}{records}"

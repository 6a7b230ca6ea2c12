"""Exports a table as this host's readers see it. The agent goes on; it only has to be there."""

import os
from collections.abc import Callable
from pathlib import Path

from enrich.base.errors import CorruptState, Retryable
from enrich.config import Pipeline
from enrich.host.claims.notes import TOPIC_ID
from enrich.host.ipc.header import Header
from enrich.host.reader.reading import AgentSnapshot, RowsReader
from enrich.host.tables import TopicTable, topic_tables
from stores.protocol import Clock
from stores.snapshots import Origin, Snapshot, export_table


def export_from_reader(
    pipeline: Pipeline,
    table: str,
    location: Path,
    clock: Clock,
    *,
    deadline_s: float,
    tell_waiting: Callable[[Header], None],
    tell_rows: Callable[[int, int], None],
) -> Snapshot:
    """Makes a snapshot of a table that is ready. Raises Unreachable when it is not so within the deadline.

    `tell_rows` hears how many row versions are written, and how many keys there are.
    """
    # The command itself needs the agent, not the terminal that it was typed into.
    reader = RowsReader(pipeline, holder=os.getpid)
    try:
        snapshot = reader.wait_until_ready([table], deadline_s=deadline_s, tell=tell_waiting)
        view = snapshot.table(table)
        source = view.whole()
        written = 0

        def tell(versions: int) -> None:
            nonlocal written
            written += versions
            tell_rows(written, source.state.rows)

        origin = _origin(pipeline, topic_tables(pipeline)[table], snapshot, clock)
        try:
            return export_table(source, origin, location, tell=tell)
        except CorruptState:
            view.suspect()
            raise
    finally:
        reader.close()


def _origin(pipeline: Pipeline, table: TopicTable, snapshot: AgentSnapshot, clock: Clock) -> Origin:
    view = snapshot.table(table.name)
    notes = view.whole().state.notes
    if view.complete_through is None or TOPIC_ID not in notes:
        raise Retryable(
            "it is not known of which topic the rows are, and up to when",
            where=f"table `{table.name}`",
            next_step="run the command again once `enrich agent status` says that the table is ready",
        )
    return Origin(
        pipeline.name,
        table.name,
        table.topic,
        table.definition,
        snapshot.seq,
        clock.now_ms(),
        view.complete_through,
        notes,
    )

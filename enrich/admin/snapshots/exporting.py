"""Exports a table as this host's readers see it. The agent must run; it is not disturbed."""

from collections.abc import Callable
from pathlib import Path

from enrich.admin.ready import ready_reader
from enrich.base.errors import CorruptState, Retryable
from enrich.config import Pipeline
from enrich.host.claims.notes import TOPIC_ID
from enrich.host.ipc.header import Header
from enrich.host.reader.reading import AgentSnapshot
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
    report_waiting: Callable[[Header], None],
    report_rows: Callable[[int, int], None],
) -> Snapshot:
    """Makes a snapshot of a table once it is ready. Raises Unreachable if that takes longer than the deadline.

    `report_rows` is called with the number of row versions written, and the number of keys.
    """
    with ready_reader(pipeline, table, deadline_s, report_waiting) as (_, snapshot):
        view = snapshot.table(table)
        source = view.whole()
        written = 0

        def report(versions: int) -> None:
            nonlocal written
            written += versions
            report_rows(written, source.state.rows)

        origin = _origin(pipeline, topic_tables(pipeline)[table], snapshot, clock)
        try:
            return export_table(source, origin, location, tell=report)
        except CorruptState:
            view.suspect()
            raise


def _origin(pipeline: Pipeline, table: TopicTable, snapshot: AgentSnapshot, clock: Clock) -> Origin:
    view = snapshot.table(table.name)
    notes = view.whole().state.notes
    if view.complete_through is None or TOPIC_ID not in notes:
        raise Retryable(
            "the agent does not report yet which topic the rows are from and up to when they are complete",
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

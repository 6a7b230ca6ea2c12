"""Asks the agent of this host to load a table again from its topic. The old rows answer until that is done."""

import time
from collections.abc import Callable

from enrich.admin.ready import ready_reader
from enrich.base.errors import Retryable, Unreachable
from enrich.config import Pipeline
from enrich.host.ipc.header import Header
from enrich.host.ipc.requests import REBUILD, ask
from enrich.host.ipc.store_paths import paths_of

_LOOK_EVERY_S = 0.05


def rebuild(pipeline: Pipeline, table: str, *, deadline_s: float, report: Callable[[Header], None]) -> int:
    """Returns the number of rows after the load. Raises Unreachable at the deadline; the agent continues the load."""
    end = time.monotonic() + deadline_s
    with ready_reader(pipeline, table, deadline_s, report) as (reader, snapshot):
        before = snapshot.table(table).whole().state.table_id
        ask(paths_of(pipeline).folder, "POST", REBUILD + table)
        while time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
            try:
                snapshot = reader.snapshot()
                report(snapshot.header)
                state = snapshot.table(table).whole().state
            except Retryable:
                continue
            # Each load of a table has its own table id in the store.
            if state.table_id != before and snapshot.header.tables[table].ready:
                return state.rows
    raise Unreachable(
        f"table {table} was not rebuilt within {deadline_s:g} s; the agent continues",
        next_step="run `enrich agent status`",
    )

"""Has the agent of this host load a table anew from its topic, beside the rows that go on answering."""

import os
import time
from collections.abc import Callable

from enrich.base.errors import Retryable, Unreachable
from enrich.config import Pipeline
from enrich.host.ipc.header import Header
from enrich.host.ipc.requests import REBUILD, ask
from enrich.host.ipc.store_paths import paths_of
from enrich.host.reader.reading import RowsReader

_LOOK_EVERY_S = 0.05


def rebuild(pipeline: Pipeline, table: str, *, deadline_s: float, tell: Callable[[Header], None]) -> int:
    """Returns how many rows it then has. Raises Unreachable at the deadline; the agent goes on with it."""
    reader = RowsReader(pipeline, holder=os.getpid)
    end = time.monotonic() + deadline_s
    try:
        snapshot = reader.wait_until_ready([table], deadline_s=deadline_s, tell=tell)
        before = snapshot.table(table).whole().state.table_id
        ask(paths_of(pipeline).folder, "POST", REBUILD + table)
        while time.monotonic() < end:
            try:
                snapshot = reader.snapshot()
                tell(snapshot.header)
                state = snapshot.table(table).whole().state
            except Retryable:
                time.sleep(_LOOK_EVERY_S)
                continue
            # Every load of a table is a table of its own in the store.
            if state.table_id != before and snapshot.header.tables[table].ready:
                return state.rows
            time.sleep(_LOOK_EVERY_S)
        raise Unreachable(
            f"table {table} was not loaded anew within {deadline_s:g} s, and the agent goes on with it",
            next_step="see `enrich agent status`",
        )
    finally:
        reader.close()

"""A reader of this host, for commands that work on a table as readers see it."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from enrich.config import Pipeline
from enrich.host.ipc.header import Header
from enrich.host.reader.reading import AgentSnapshot, RowsReader


@contextmanager
def ready_reader(
    pipeline: Pipeline, table: str, deadline_s: float, report: Callable[[Header], None] = lambda _: None
) -> Iterator[tuple[RowsReader, AgentSnapshot]]:
    """A reader, and the first snapshot in which the table is ready. Raises Unreachable at the deadline."""
    # This process needs the agent, not the terminal that started it.
    with closing(RowsReader(pipeline, holder=os.getpid)) as reader:
        yield reader, reader.wait_until_ready([table], deadline_s=deadline_s, report=report)

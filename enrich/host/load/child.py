"""A process that loads one table and ends: it reads the topic, decodes, sorts and writes the files of a bulk load.

The agent stays the only writer of the store: this process asks it for everything that touches the database (`Target`).
It is killed with the agent, and all memory of a load is free again when it ends.
"""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from logging.handlers import WatchedFileHandler
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import cast

from enrich.base.errors import EnrichError
from enrich.base.logs import JsonLines
from enrich.config import Pipeline
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.load.loading import Listener, Order, Progress, load_table, to_come
from enrich.host.load.pipe import Done, Job, Task, ask
from enrich.host.load.reading import reading_beside, reading_here
from enrich.host.tables import topic_tables
from stores.clock import SystemClock
from stores.protocol import Publication, Quarantined, TableSpec
from stores.rocks import BulkLoad, Reserved
from stores.rocks.state import TableState
from stores.rocks.write.setting_aside import SetAside, Waiting

_log = logging.getLogger("enrich.agent.load")

_ASK_EVERY_S = 0.1
"""An answer comes only when the agent has time: asking after each batch took a tenth of a load's time."""

_MANY = 100_000
"""From so many records on they are read in a process of its own: it takes a few milliseconds and 10 MiB."""


class _StoreOfAgent:
    """The agent's store, as a load sees it. Implements `Loads` and `Target`."""

    def __init__(self, pipe: Pipe, spec: TableSpec) -> None:
        self._pipe = pipe
        self._spec = spec

    def bulk(self, table: str) -> BulkLoad:
        return BulkLoad(self, self._spec, cast("Reserved", ask(self._pipe, "reserve", table)))

    def ingest(self, files: Sequence[Path]) -> None:
        ask(self._pipe, "ingest", files)

    def write_unseen(self, puts: Mapping[bytes, bytes]) -> None:
        ask(self._pipe, "write_unseen", puts)

    def swap(self, table: TableState, aside: SetAside, waiting: Waiting) -> Publication:
        return cast("Publication", ask(self._pipe, "swap", table, aside, waiting))

    def abandon(self, table_id: int) -> None:
        ask(self._pipe, "abandon", table_id)


class _AgentListener:
    """The agent, as a load's `Listener`: called at most every `_ASK_EVERY_S`."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._reported_at = self._asked_at = float("-inf")
        self._should_stop = False

    def progress(self, progress: Progress) -> None:
        if time.monotonic() - self._reported_at >= _ASK_EVERY_S:
            ask(self._pipe, "progress", progress)
            self._reported_at = time.monotonic()

    def quarantined(self, records: Sequence[Quarantined]) -> None:
        if records:
            ask(self._pipe, "quarantined", records)

    def should_stop(self) -> bool:
        if time.monotonic() - self._asked_at >= _ASK_EVERY_S:
            self._should_stop = ask(self._pipe, "should_stop")
            self._asked_at = time.monotonic()
        return self._should_stop


def load(pipe: Pipe, pipeline: Pipeline, paths: StorePaths) -> int:
    """The process's main function. Returns its exit code."""
    _log_to(paths)
    try:
        job: Job | Task = pipe.recv()
        if not isinstance(job, Job):
            pipe.send(Done(job(pipeline, paths)))
            return 0
        table = topic_tables(pipeline)[job.table]
        agent = _AgentListener(pipe)
        listener = Listener(agent.progress, agent.quarantined, agent.should_stop)
        order = Order(table, job.answer, job.connection, job.head_start)
        reading = reading_beside if _to_come(order) >= _MANY else reading_here
        pipe.send(Done(load_table(_StoreOfAgent(pipe, table.spec), order, listener, SystemClock(), reading)))
    except EnrichError as error:
        pipe.send(error)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return 1  # the agent is gone: nobody wants the table any more
    except Exception:  # noqa: BLE001 - the process's top: a bug is logged, and the agent reports that the load ended
        _log.exception("this is a bug in enrich; the load ends", extra={"pid": os.getpid()})
        return 1
    return 0


def _to_come(order: Order) -> int:
    """How many records at most, as far as the agent knows."""
    positions = {} if order.head_start is None else order.head_start.manifest.positions
    return to_come(positions, order.answer.ends.offsets)


def _log_to(paths: StorePaths) -> None:
    # The agent rotates the file: this handler notices and opens the new one.
    handler = WatchedFileHandler(paths.log, encoding="utf-8")
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)

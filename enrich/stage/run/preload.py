"""Before the query starts: waits until every executor's host has the tables, and shows their progress."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from enrich.base.errors import Unreachable
from enrich.stage.spark.in_arrow import mapped
from enrich.stage.task.failures import MARK, from_report
from enrich.stage.task.freshness import behind_text
from enrich.stage.task.spec import TaskSpec

if TYPE_CHECKING:
    from rich.console import Console

_log = logging.getLogger(__name__)

_ROUND_S = 0.5
"""How long each executor waits in a round before it reports its progress."""
_LOG_EVERY_S = 5.0
_LOOK_EVERY_S = 0.1
_LOST_TASK = "failed barrier"
"""In Spark's message if the barrier job started, and a worker or an executor died."""
_MOST_LOST = 5
_SCHEMA = "host string, table string, ready boolean, behind_s double, records bigint, reason string"


@dataclass(frozen=True)
class HostTable:
    """The state of one table on one host, as an executor there sees it."""

    host: str
    table: str
    ready: bool
    behind_s: float | None
    records: int | None
    reason: str | None


class Display(Protocol):
    """Where progress goes."""

    def show(self, tables: Sequence[HostTable]) -> None: ...


def preload(spark: SparkSession, spec: TaskSpec, is_stopping: Callable[[], bool] = lambda: False) -> None:
    """Returns once the tables are ready on all executors, or if the stage is to stop. If Spark cannot run one task on
    every core at the same time, each worker waits at its first batch instead.

    Raises Unreachable, naming table, host and lag, at a table's deadline. On a host whose executors come late it is
    later: until then nobody there loads the table.
    """
    deadlines = {rule.name: rule.deadline_s for rule in spec.rules}
    began = time.monotonic()
    waits_since: dict[tuple[str, str], float] = {}
    lost = 0
    with _display() as display:
        while deadlines and not is_stopping():
            slots = slots_of(spark)
            if not slots:
                if time.monotonic() - began >= min(deadlines.values()):
                    _log.warning("no preload: there is no executor; each worker waits at its first batch instead")
                    return
                time.sleep(_LOOK_EVERY_S)
                continue
            round_began = time.monotonic()
            try:
                found = _round(spark, spec, slots)
            except (PySparkException, Py4JJavaError) as error:
                if MARK in str(error) or "barrier" not in str(error).lower():
                    raise from_report(str(error)) from error
                lost += _LOST_TASK in str(error)
                if 0 < lost <= _MOST_LOST:
                    _log.warning("a worker was lost while the tables were preloaded; trying again")
                    continue
                # No preload does no harm: each worker waits at its own gate.
                _log.warning("no preload: Spark cannot do it here; each worker waits at its first batch instead")
                return
            display.show(found)
            waiting = [table for table in found if not table.ready]
            if not waiting:
                return
            for table in waiting:
                since = waits_since.setdefault((table.host, table.table), round_began)
                if time.monotonic() - since >= deadlines[table.table]:
                    raise _too_late(table, deadlines[table.table])


def slots_of(spark: SparkSession) -> int:
    """Cores of the executors that are there now. `defaultParallelism` would be two before there are any, and also if
    there is only one: Spark would refuse the job, and try again after fifteen seconds."""
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def _round(spark: SparkSession, spec: TaskSpec, tasks: int) -> list[HostTable]:
    """The state on every executor: one task on each core, all at the same time, so that no executor is left out."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from enrich.stage.worker.task import states

        for _ in batches:
            yield states(spec, _ROUND_S)

    rows = mapped(spark.range(0, tasks, 1, tasks), look, _SCHEMA, barrier=True).collect()
    newest: dict[tuple[str, str], HostTable] = {}
    for row in rows:
        table = HostTable(**row.asDict())
        known = newest.get((table.host, table.table))
        if known is None or known.ready:
            newest[table.host, table.table] = table
    return list(newest.values())


def _too_late(table: HostTable, deadline_s: float) -> Unreachable:
    return Unreachable(
        f"the table {table.table} is not ready within {deadline_s:g} s: {table.reason}; {behind_text(table.behind_s)}",
        where=f"host {table.host}",
        next_step="run `enrich agent status` on that host, or allow more time: tables.<name>.freshness.deadline",
    )


@contextmanager
def _display() -> Iterator[Display]:
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    with _Bars(console) as bars:
        yield bars


class _Lines:
    """Log lines, at once and then every few seconds."""

    def __init__(self) -> None:
        self._logged_at = -_LOG_EVERY_S

    def show(self, tables: Sequence[HostTable]) -> None:
        done = all(table.ready for table in tables)
        if not done and time.monotonic() - self._logged_at < _LOG_EVERY_S:
            return
        self._logged_at = time.monotonic()
        for table in tables:
            _log.info("a table is loaded" if table.ready else "a table is loading", extra=_fields(table))


class _Bars:
    """A progress bar of tables on a terminal."""

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("tables"),
            BarColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("waiting for executors", total=None)

    def __enter__(self) -> "_Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, tables: Sequence[HostTable]) -> None:
        ready = sum(table.ready for table in tables)
        waiting = next((table for table in tables if not table.ready), None)
        records = "" if waiting is None or waiting.records is None else f", {waiting.records:,} records"
        text = "" if waiting is None else f"{waiting.table} on {waiting.host}: {waiting.reason}{records}"
        self._progress.update(self._task, total=len(tables), completed=ready, description=text)


def _fields(table: HostTable) -> Mapping[str, object]:
    known = {"table": table.table, "host": table.host, "behind_s": table.behind_s, "reason": table.reason}
    return {name: value for name, value in known.items() if value is not None}

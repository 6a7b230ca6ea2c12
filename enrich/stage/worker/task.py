"""The tables in a Spark Python worker: opened once per process, one seq for each task."""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from enrich.config import from_wire
from enrich.host.reader.reading import AgentReader, AgentSnapshot
from enrich.stage.task.failures import reported_to_driver
from enrich.stage.task.pin import Pin
from enrich.stage.task.spec import TaskSpec
from enrich.stage.worker.answers import NotYet, Questions, answered
from enrich.stage.worker.gate import Gate
from enrich.stage.worker.pinned import pinned
from stores.clock import SystemClock
from stores.protocol import TableView
from stores.table import Seq


class WorkerTables:
    """The tables of one spec in this process. Spark runs one task at a time in a worker."""

    def __init__(self, spec: TaskSpec) -> None:
        # Only the tables of the spec: a worker whose tables are all in segments opens no RocksDB.
        self._reader = AgentReader(from_wire(spec.pipeline), tables=[rule.name for rule in spec.rules])
        self._gate = Gate(self._reader, spec.rules, SystemClock())
        self._rules = {rule.name: rule for rule in spec.rules}
        self._loads = ThreadPoolExecutor(_LOADS_AT_ONCE, "load")
        """Of pieces. A thread is started when one is needed."""

    def begin(self, pin: Pin | None) -> "TaskTables":
        """The tables for one task, at the newest seq, once they are fresh enough and have reached the pin. Raises
        Unreachable at a table's deadline, and WouldLoseData for an expired pin."""
        snapshot = self._gate.enter()
        return TaskTables(self, snapshot if pin is None else self._gate.reach(pin, snapshot), pin)

    def begin_piece(self) -> "PieceTables":
        """The same for a piece of a slot."""
        return PieceTables(self, self._gate.enter())

    def newer(self) -> AgentSnapshot:
        self._reader.refresh()
        return self._reader.snapshot()

    def view(self, snapshot: AgentSnapshot, name: str, pin: Pin | None) -> TableView:
        if pin is not None:
            return pinned(snapshot.table(name), self._rules[name], pin)
        return self._gate.view(self._rules[name], snapshot)

    def load(self, name: str, keys: Sequence[bytes]) -> None:
        self._reader.load(name, keys, patience_s=self.deadline_s(name))

    def begin_load(self, name: str, keys: Sequence[bytes]) -> "Future[Seq | None]":
        """What `reach` needs once the keys are loaded."""
        return self._loads.submit(self._reader.loaded, name, keys, self.deadline_s(name))

    def reach(self, seq: Seq | None) -> None:
        self._reader.reach(seq)

    def deadline_s(self, name: str) -> float:
        return self._rules[name].deadline_s

    def close(self) -> None:
        self._loads.shutdown(wait=False, cancel_futures=True)
        self._reader.close()

    def states(self) -> list[dict[str, object]]:
        """A row for each table: whether it is ready, how far it is behind, and why."""
        snapshot, short = self._gate.shortfalls()
        now, rows = SystemClock().now_ms(), []
        for name in self._rules:
            state = snapshot.header.tables[name]
            through, records = state.complete_through, state.progress.get("records")
            rows.append(
                {
                    "host": socket.gethostname(),
                    "table": name,
                    "ready": name not in short,
                    "behind_s": None if through is None else max(0.0, (now - through) / 1000),
                    "records": None if records is None else int(records),
                    "reason": short.get(name),
                }
            )
        return rows


class TaskTables:
    """The tables as one task sees them."""

    def __init__(self, tables: WorkerTables, snapshot: AgentSnapshot, pin: Pin | None) -> None:
        self._tables = tables
        self._pin = pin
        self._snapshot = snapshot

    def table(self, name: str) -> TableView:
        return self._tables.view(self._snapshot, name, self._pin)

    def renew(self) -> None:
        self._snapshot = self._tables.newer()

    def pause(self) -> None:
        time.sleep(_LOOK_EVERY_S)
        self.renew()

    def load(self, wanted: Mapping[str, Sequence[bytes]]) -> None:
        for name, keys in wanted.items():
            self._tables.load(name, keys)

    def deadline_s(self, name: str) -> float:
        return self._tables.deadline_s(name)


class PieceTables(TaskTables):
    """The tables as one piece of a partition sees them: others go on while it waits."""

    def __init__(self, tables: WorkerTables, snapshot: AgentSnapshot) -> None:
        super().__init__(tables, snapshot, None)
        self._loads: dict[str, Future[Seq | None]] = {}

    def load(self, wanted: Mapping[str, Sequence[bytes]]) -> None:
        for name, keys in wanted.items():
            if name not in self._loads:
                self._loads[name] = self._tables.begin_load(name, keys)
        if not all(self._loads[name].done() for name in wanted):
            raise NotYet
        for name in wanted:
            self._tables.reach(self._loads[name].result())

    def pause(self) -> None:
        raise NotYet


_LOOK_EVERY_S = 0.02
_LOADS_AT_ONCE = 64
_STATES = pa.schema(
    [
        ("host", pa.string()),
        ("table", pa.string()),
        ("ready", pa.bool_()),
        ("behind_s", pa.float64()),
        ("records", pa.int64()),
        ("reason", pa.string()),
    ]
)

# Only a cache: Spark ends idle workers after a minute, and the next worker opens its own tables.
_OPEN: dict[str, WorkerTables] = {}


class TaskAnswers:
    """Answers the batches of one task, all at the seq that is newest when the first batch arrives, and as of the pin if
    there is one."""

    def __init__(self, spec: TaskSpec, pin: Pin | None = None) -> None:
        self._spec = spec
        self._pin = pin
        self._tables: TaskTables | None = None

    def answer(self, questions: Questions) -> pa.StructArray:
        """Answers of type `spec.answer_type`."""
        with reported_to_driver():
            waited_s = 0.0
            if self._tables is None:
                came = time.monotonic()
                self._tables = _tables(self._spec).begin(self._pin)
                waited_s = time.monotonic() - came
            return answered(self._spec, self._tables, questions, waited_s)


class PieceAnswers:
    """Answers a piece of a partition in a slot. If that raises NotYet, it is asked again, and looks at a newer seq."""

    def __init__(self, spec: TaskSpec, pin: Pin | None = None) -> None:  # noqa: ARG002 - slots have no pins
        self._spec = spec
        self._tables: PieceTables | None = None
        self._since = 0.0

    def answer(self, questions: Questions) -> pa.StructArray:
        with reported_to_driver():
            waited_s = 0.0
            if self._tables is None:
                self._since = time.monotonic()
                self._tables = _tables(self._spec).begin_piece()
                waited_s = time.monotonic() - self._since
            else:
                self._tables.renew()
            return answered(self._spec, self._tables, questions, waited_s, self._since)


def states(spec: TaskSpec, patience_s: float) -> pa.RecordBatch:
    """The tables' states on this host, once all are ready or after `patience_s`."""
    end = time.monotonic() + patience_s
    while True:
        with reported_to_driver():
            rows = _tables(spec).states()
        if all(row["ready"] for row in rows) or time.monotonic() > end:
            return pa.RecordBatch.from_pylist(rows, schema=_STATES)
        time.sleep(_LOOK_EVERY_S)


def _tables(spec: TaskSpec) -> WorkerTables:
    key = repr(spec)
    if key not in _OPEN:
        # The host has one core per task: more threads in each worker would only compete.
        pa.set_cpu_count(1)
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        _OPEN[key] = WorkerTables(spec)
    return _OPEN[key]

"""Asks the pages of a pipeline's programs how they are, every few seconds, each in turn of its own."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enrich.config import Pipeline
from enrich.service.asking import status_at
from observe_service.alarms.causes import AGENT

_EVERY_S = 3.0
_PATIENCE_S = 2.0
_MOST_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Asked:
    """A program with a page."""

    name: str
    """`ingest`, `stage prepare` ..."""
    address: str


def bounds_of(pipeline: Pipeline) -> Mapping[str, int]:
    """Of tables that mirror topics: how old their answers may be, in ms."""
    mirrored = {name: table for name, table in pipeline.tables.items() if table.topic is not None}
    return {name: round(table.freshness.bound.total_seconds() * 1000) for name, table in mirrored.items()}


def programs_of(pipeline: Pipeline) -> Iterator[Asked]:
    """Those whose page has an address in the configuration."""
    if pipeline.ingest:
        yield Asked("ingest", pipeline.pages.ingest)
    for name, stage in pipeline.stages.items():
        if stage.metrics_port is not None:
            yield Asked(f"stage {name}", f"{stage.metrics_address}:{stage.metrics_port}")
    if pipeline.expel:
        yield Asked("expel", pipeline.pages.expel)
    if any(route.retries for route in pipeline.expel.values()):
        yield Asked("retrier", pipeline.pages.retrier)
    if pipeline.sync is not None:
        yield Asked("sync", pipeline.sync.listen)
    if pipeline.tables and pipeline.agent.metrics_port is not None:
        yield Asked(AGENT, f"{pipeline.agent.metrics_address}:{pipeline.agent.metrics_port}")


class NodesWatch:
    """A program that does not answer says nothing: it may run on another host."""

    def __init__(
        self,
        pipeline: str,
        programs: Sequence[Asked],
        bounds_ms: Mapping[str, int] | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`pipeline`: its name. What programs of others say does not count.

        `bounds_ms`: how old the answers of a table may be, by its name. `now_s`: the clock by which others ask when a
        program has answered.
        """
        self._now_s = now_s
        self._pipeline = pipeline
        self._bounds_ms = bounds_ms or {}
        self._programs = [program for program in programs if not program.address.endswith(":0")]
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._failed: dict[str, tuple[float, str]] = {}
        """By program: since when it has not answered, and why."""
        self._answered_s: dict[str, float] = {}
        self._answered_here_ms: dict[str, float] = {}
        """By this host's clock, as tables have it: their agent is on the same host."""
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        for program in self._programs:  # one that hangs must not hold the others up
            threading.Thread(target=self._run, args=[program], name=f"page of {program.name}", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def shown(self) -> Sequence[Mapping[str, Any]]:
        """Of each program: whether it answers, since when it has not, and what it says of its routes and tables."""
        with self._lock:
            return [self._shown(program) for program in self._programs]

    def answered_since(self, name: str, time_s: float) -> bool | None:
        """None: it is never asked."""
        with self._lock:
            if all(program.name != name for program in self._programs):
                return None
            return self._answered_s.get(name, 0.0) >= time_s

    def _shown(self, program: Asked) -> Mapping[str, Any]:
        failed = self._failed.get(program.name)
        answer = self._answers.get(program.name, {}) if failed is None else {}
        known = {key: answer[key] for key in ("routes", "phase") if key in answer}
        if "tables" in answer:
            at_ms = self._answered_here_ms.get(program.name, 0.0)
            known["tables"] = {name: self._table(name, table, at_ms) for name, table in answer["tables"].items()}
        return {
            "name": program.name,
            "answers": program.name in self._answered_s and failed is None,
            "silent_since_s": None if failed is None else failed[0],
            "why": None if failed is None else failed[1],
            **known,
        }

    def _table(self, name: str, table: Mapping[str, Any], at_ms: float) -> Mapping[str, Any]:
        """With how far its rows are behind, and whether that is more than it may be."""
        through, bound_ms = table.get("complete_through"), self._bounds_ms.get(name)
        if not isinstance(through, int) or bound_ms is None:
            return table
        behind_ms = max(0, round(at_ms - through))
        return {**table, "behind_ms": behind_ms, "bound_ms": bound_ms, "is_stale": behind_ms > bound_ms}

    def _run(self, program: Asked) -> None:
        while not self._stopping.is_set():
            try:
                answer = _formed(status_at(program.address, self._pipeline, _PATIENCE_S, _MOST_BYTES))
            except (OSError, ValueError) as error:
                with self._lock:
                    self._failed.setdefault(program.name, (self._now_s(), str(error) or type(error).__name__))
            else:
                with self._lock:
                    self._answers[program.name] = answer
                    self._failed.pop(program.name, None)
                    self._answered_s[program.name] = self._now_s()
                    self._answered_here_ms[program.name] = time.time() * 1000
            self._stopping.wait(_EVERY_S)


def _formed(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer. Raises ValueError if what it says of routes and tables cannot be read: alarms come from it."""
    routes, tables = answer.get("routes", []), answer.get("tables", {})
    if isinstance(routes, list) and isinstance(tables, dict):
        details = [route.get("details") or {} for route in routes if isinstance(route, dict)]
        if len(details) == len(routes) and all(isinstance(each, dict) for each in (*details, *tables.values())):
            return answer
    raise ValueError("its answer has another form than those of this release")

"""A stage's metrics for Prometheus: what Spark observed of its batches, and what their workers reported."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryProgress

from enrich.stage.measure.counting import ON_ROUTE
from enrich.stage.measure.lags import StageLags
from enrich.stage.progress.group import offsets_in
from enrich.stage.task.lookups import StageLookup
from enrich.stage.task.report import STATUSES, BatchReport
from enrich.tally.lags import Lag

_BUCKETS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_LABELS = ("pipeline", "stage")
Values = Mapping[tuple[str, ...], float]
"""By the values of the labels beyond these two."""
_DROPPED = "Events left out by `on_miss: drop`, or since they take no route."


class StageMetrics(Collector):
    """Fed by the listener of a stage's query, read by Prometheus."""

    def __init__(
        self,
        pipeline: str,
        stage: str,
        lookups: Sequence[StageLookup],
        processes: Mapping[str, int] | None = None,
        routes: Sequence[str] = (),
    ) -> None:
        """`processes`: the driver's processes, pid by name. `routes`: their names."""
        self._own = (pipeline, stage)
        self._lookups = lookups
        self._routes = routes
        self._processes = processes or {}
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter(events=0, dropped=0, dead_letters=0)
        self._statuses: Counter[tuple[int, str]] = Counter()
        self._seconds: Counter[str] = Counter(took=0, waited=0)
        self._parts: Counter[str] = Counter()
        self._batches: Counter[float] = Counter()
        self._batch_seconds = 0.0
        self._ages: dict[str, float] = {}
        self._memory: dict[str, int] = {}
        self._behind: Mapping[str, int] = {}
        self._ended_s: float | None = None
        self._lags = StageLags()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)

    def batch_done(
        self,
        progress: StreamingQueryProgress,
        counts: Mapping[str, int],
        tallies: Sequence[BatchReport],
        lag: Lag,
    ) -> None:
        parts_s = {name: ms / 1000 for name, ms in progress.durationMs.items()}
        whole_s = parts_s.pop("triggerExecution", 0.0)
        began_s = datetime.fromisoformat(progress.timestamp).timestamp()
        with self._lock:
            self._counted(counts, tallies)
            self._parts.update(parts_s)
            self._batches.update([next((bound for bound in _BUCKETS_S if whole_s <= bound), float("inf"))])
            self._batch_seconds += whole_s
            self._behind = _behind(progress)
            self._ended_s = began_s + whole_s
        self._lags.add(lag)

    def pieces_done(self, counts: Mapping[str, int], report: BatchReport | None, lag: Lag) -> None:
        """By a slot."""
        with self._lock:
            self._counted(counts, [] if report is None else [report])
            self._ended_s = time.time()
        self._lags.add(lag)

    def reached(self, behind: Mapping[str, int]) -> None:
        """How many events of each topic are not processed yet."""
        with self._lock:
            self._behind = behind

    def lags(self) -> Mapping[str, Mapping[str, float | None]]:
        """How late the events of the last minute were: quantiles, in seconds."""
        return self._lags.quantiles()

    def _counted(self, counts: Mapping[str, int], tallies: Sequence[BatchReport]) -> None:
        self._counts.update(counts)
        for tally in tallies:
            self._add(tally)
        if tallies:
            self._ages = _greatest(tally.ages_s for tally in tallies)
            self._memory = _greatest({tally.host: tally.memory} for tally in tallies)

    def _add(self, tally: BatchReport) -> None:
        self._seconds.update({"took": tally.took_s, "waited": tally.waited_s})
        for index, numbers in enumerate(tally.statuses):
            self._statuses.update({(index, status): n for status, n in zip(STATUSES, numbers, strict=True)})

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            yield from self._events()
            yield from self._tables()
            yield from self._times()
        yield from self._lags.metrics(dict(zip(_LABELS, self._own, strict=True)))
        memory: Values = {(name,): _resident(pid) for name, pid in self._processes.items()}
        yield self._gauge("driver_memory_bytes", "Memory of the driver by process.", memory, "process")

    def _events(self) -> Iterator[Metric]:
        yield self._counter("events", "Events that were read.", {(): self._counts["events"]})
        yield self._counter("dropped_events", _DROPPED, {(): self._counts["dropped"]})
        yield self._counter("dead_letters", "Events that went to the DLQ.", {(): self._counts["dead_letters"]})
        if self._routes:
            taken: Values = {(name,): self._counts[f"{ON_ROUTE}{name}"] for name in self._routes}
            yield self._counter("routed_events", "Events that took a route.", taken, "route")
        found: dict[tuple[str, ...], float] = {}
        for index, lookup in enumerate(self._lookups):
            policy = "wait" if lookup.waits else lookup.last_resort.value
            for status in STATUSES:
                found[lookup.name, lookup.table, policy, status] = self._statuses[index, status]
        labels = ("lookup", "table", "on_miss", "status")
        yield self._counter("lookups", "Rows looked up, by what was found.", found, *labels)
        behind: Values = {(topic,): events for topic, events in self._behind.items()}
        yield self._gauge("events_behind", "Events of the source that are not read yet.", behind, "topic")

    def _tables(self) -> Iterator[Metric]:
        yield self._counter("lookup_seconds", "Time of workers in look-ups.", {(): self._seconds["took"]})
        text = "Time of workers waiting for tables to be ready or fresh."
        yield self._counter("waited_seconds", text, {(): self._seconds["waited"]})
        text = "How long before its answers a table was known to be complete, at most, in the last batch."
        yield self._gauge("table_age_seconds", text, {(name,): age for name, age in self._ages.items()}, "table")
        text = "Private memory of the largest Python worker of a host in the last batch."
        yield self._gauge("worker_memory_bytes", text, {(host,): size for host, size in self._memory.items()}, "host")

    def _times(self) -> Iterator[Metric]:
        buckets, reached = [], 0
        for bound in (*_BUCKETS_S, float("inf")):
            reached += self._batches[bound]
            buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", reached))
        batches = HistogramMetricFamily("enrich_stage_batch_seconds", "How long batches took.", labels=_LABELS)
        batches.add_metric(self._own, buckets, self._batch_seconds)
        yield batches
        parts: Values = {(part,): seconds for part, seconds in self._parts.items()}
        yield self._counter("batch_part_seconds", "Time of batches by what Spark did.", parts, "part")
        if self._ended_s is not None:
            text = "Unix time at which the last batch ended."
            yield self._gauge("last_batch_timestamp_seconds", text, {(): self._ended_s})

    def _counter(self, name: str, text: str, values: Values, *labels: str) -> Metric:
        return self._filled(CounterMetricFamily(f"enrich_stage_{name}", text, labels=(*_LABELS, *labels)), values)

    def _gauge(self, name: str, text: str, values: Values, *labels: str) -> Metric:
        return self._filled(GaugeMetricFamily(f"enrich_stage_{name}", text, labels=(*_LABELS, *labels)), values)

    def _filled(self, family: CounterMetricFamily | GaugeMetricFamily, values: Values) -> Metric:
        for labels, value in values.items():
            family.add_metric((*self._own, *labels), value)
        return family


def _greatest(given: Any) -> dict[str, Any]:
    """The greatest value of each name; those that are None are left out."""
    found: dict[str, Any] = {}
    for values in given:
        for name, value in values.items():
            if value is not None:
                found[name] = max(value, found.get(name, value))
    return found


def _behind(progress: StreamingQueryProgress) -> Mapping[str, int]:
    """By topic, events between the end of the batch and the end of the topic at that time."""
    behind: Counter[str] = Counter()
    for source in progress.sources:
        ends = offsets_in(source.endOffset)
        for topic, newest in offsets_in(source.latestOffset).items():
            done = ends.get(topic, {})
            behind[topic] += sum(max(0, end - done.get(p, 0)) for p, end in newest.items())
    return behind


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0  # the process has ended, or the system has no /proc
    return int(pages) * os.sysconf("SC_PAGE_SIZE")

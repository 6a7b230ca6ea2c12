"""The agent's metrics for Prometheus, made from its header at each scrape, so that nothing is counted twice."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from enrich.host.ipc.header import Header, TableState
from enrich.service.page import Page

if TYPE_CHECKING:
    from stores.segments import Stats

_TABLE_GAUGES: Mapping[str, tuple[str, Callable[[TableState], float | None]]] = {
    "ready": ("1 when the table is complete to the ends captured at the agent's start.", lambda t: t.ready),
    "set_aside": (
        "1 while an error keeps the table from making progress; it is retried.",
        lambda t: t.is_set_aside,
    ),
    "complete_through_seconds": (
        "Unix time through which the table is known to be complete.",
        lambda t: None if t.complete_through is None else t.complete_through / 1000,
    ),
    "rows": ("Keys in the table, tombstones included.", lambda t: t.rows),
    "quarantined_records": ("Records that could not become rows.", lambda t: t.quarantined),
    "split_keys": ("Keys that are in two partitions of the topic.", lambda t: t.split_keys),
    "records_to_come": ("Records that a load or a catch-up still has to read.", lambda t: t.progress.get("to_come", 0)),
    "keys_waiting": ("On demand: keys that wait to be loaded.", lambda t: t.progress.get("keys_waiting", 0)),
    "key_loads": (
        "On demand: keys that the agent has loaded since it began.",
        lambda t: t.progress.get("key_loads", 0),
    ),
    "key_load_failures": (
        "On demand: loads that failed since the agent began.",
        lambda t: t.progress.get("key_load_failures", 0),
    ),
    "keys_given_up": (
        "On demand: keys whose demand was dropped since the agent began: too many waited, or they failed for long.",
        lambda t: t.progress.get("keys_given_up", 0),
    ),
    "load_records_per_second": ("Records per second of a running load.", lambda t: t.progress.get("per_second", 0)),
}


_SEGMENT_GAUGES: "Mapping[str, tuple[str, Callable[[Stats | None], float]]]" = {
    "mapped": ("1 when look-ups are answered from segments, 0 when from RocksDB.", lambda s: s is not None),
    "segments": ("Segments of the table.", lambda s: 0 if s is None else s.segments),
    "segment_bytes": ("Bytes of the table's segments.", lambda s: 0 if s is None else s.bytes),
}


class AgentMetrics(Collector):
    """`header`, `memory` and `segments` are asked at each scrape."""

    def __init__(
        self,
        pipeline: str,
        header: Callable[[], Header | None],
        memory: Callable[[], Mapping[str, float]],
        segments: "Callable[[], Mapping[str, Stats | None]]" = dict,
    ) -> None:
        self._pipeline = pipeline
        self._header = header
        self._memory = memory
        self._segments = segments
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        header = self._header()
        if header is None:
            return
        yield self._gauge("seq", "The newest publication of this generation.", header.counter)
        yield self._gauge("generation", "Rises when the store's history was replaced.", header.generation)
        yield self._gauge("heartbeat_seconds", "Unix time of the agent's last heartbeat.", header.heartbeat_ms / 1000)
        for name, (text, value_of) in _TABLE_GAUGES.items():
            values = {table: value_of(state) for table, state in header.tables.items()}
            yield self._gauges(f"table_{name}", text, "table", values)
        stats = dict.fromkeys(header.tables) | dict(self._segments())
        for name, (text, size_of) in _SEGMENT_GAUGES.items():
            yield self._gauges(f"table_{name}", text, "table", {table: size_of(one) for table, one in stats.items()})
        yield self._gauges("memory_bytes", "Memory by purpose, and the budget's shares.", "part", self._memory())

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"enrich_agent_{name}", text, labels=["pipeline"])
        gauge.add_metric([self._pipeline], value)
        return gauge

    def _gauges(self, name: str, text: str, label: str, values: Mapping[str, float | None]) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"enrich_agent_{name}", text, labels=["pipeline", label])
        for of, value in values.items():
            if value is not None:
                gauge.add_metric([self._pipeline, of], float(value))
        return gauge


def agent_page(pipeline: str, header: Callable[[], Header | None], metrics: AgentMetrics) -> Page:
    """What the agent says of itself over HTTP. It is ready when all of its tables are."""

    def tables() -> Mapping[str, TableState]:
        newest = header()
        return {} if newest is None else newest.tables

    def status() -> Mapping[str, Any]:
        return {"pipeline": pipeline, "tables": {name: asdict(state) for name, state in tables().items()}}

    def not_ready() -> Mapping[str, str | None]:
        if header() is None:
            return {"agent": "it starts"}
        return {name: state.reason for name, state in tables().items() if not state.ready}

    return Page(metrics.exposition, status, not_ready=not_ready)

"""The figures of all processes in Prometheus' text format."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from edge_service.ingest.entry.figures import SLICES_S, Figures
from edge_service.ingest.processes.overview import Overview
from enrich.service.exposing import exposed
from enrich.service.routes import RouteState, RouteStatus

_LABELS = ("ingest",)


def exposition(overview: Overview, pipeline: str) -> bytes:
    return exposed(_Ingest(overview), pipeline)


class _Ingest(Collector):
    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def collect(self) -> Iterator[Metric]:
        moment = self._overview.moment
        yield _states(self._overview.statuses())
        yield from _counters(moment.figures)
        yield from _gauges(moment.figures)
        yield _times(moment.figures)
        yield _other(moment.other)
        yield GaugeMetricFamily("enrich_ingest_processes", "Processes that run.", value=len(moment.seen))
        yield CounterMetricFamily(
            "enrich_ingest_process_restarts", "Processes that ended and were started again.", value=moment.restarts
        )


def _states(statuses: list[RouteStatus]) -> Metric:
    state = GaugeMetricFamily("enrich_ingest_state", "1 for the state of the entry.", labels=(*_LABELS, "state"))
    for status in statuses:
        for one in RouteState:
            state.add_metric((status.name, one.value), float(status.state is one))
    return state


def _counters(figures: Mapping[str, Figures]) -> Iterator[Metric]:
    requests = CounterMetricFamily("enrich_ingest_requests", "Answers, by status.", labels=(*_LABELS, "status"))
    events = CounterMetricFamily("enrich_ingest_events", "Events acknowledged by the brokers.", labels=_LABELS)
    size = CounterMetricFamily("enrich_ingest_bytes", "Bytes of these events.", labels=_LABELS)
    dead = CounterMetricFamily("enrich_ingest_dead_letters", "Bad events that became dead letters.", labels=_LABELS)
    for name, entry in figures.items():
        for status, count in sorted(entry.answers.items()):
            requests.add_metric((name, str(status)), count)
        events.add_metric((name,), entry.events)
        size.add_metric((name,), entry.bytes)
        dead.add_metric((name,), entry.dead)
    yield from (requests, events, size, dead)


def _gauges(figures: Mapping[str, Figures]) -> Iterator[Metric]:
    held = GaugeMetricFamily("enrich_ingest_held_bytes", "Bytes of bodies that are held.", labels=_LABELS)
    under_way = GaugeMetricFamily("enrich_ingest_requests_under_way", "Whole requests without answer.", labels=_LABELS)
    connections = GaugeMetricFamily("enrich_ingest_connections", "Open connections to its address.", labels=_LABELS)
    for name, entry in figures.items():
        held.add_metric((name,), entry.held)
        under_way.add_metric((name,), entry.under_way)
        connections.add_metric((name,), entry.open)
    yield from (held, under_way, connections)


def _times(figures: Mapping[str, Figures]) -> Metric:
    times = HistogramMetricFamily(
        "enrich_ingest_acknowledgement_seconds",
        "From producing a request's events until the brokers have acknowledged all of them.",
        labels=_LABELS,
    )
    for name, entry in figures.items():
        buckets, count = [], 0
        for end, number in zip((*map(str, SLICES_S), "+Inf"), entry.slices, strict=True):
            count += number
            buckets.append((end, count))
        times.add_metric((name,), buckets, sum_value=entry.acknowledged_s)
    return times


def _other(answers: Mapping[str, Mapping[int, int]]) -> Metric:
    other = CounterMetricFamily(
        "enrich_ingest_other_requests",
        "Answers to requests that reached no entry: unknown paths, what is no HTTP, the description.",
        labels=("listen", "status"),
    )
    for listen, by_status in answers.items():
        for status, count in sorted(by_status.items()):
            other.add_metric((listen, str(status)), count)
    return other

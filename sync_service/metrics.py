"""The statuses of routes in Prometheus' text format."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sync_service.routes import RouteState, RouteStatus

_LABELS = ("route", "kind")


def exposition(statuses: Sequence[RouteStatus]) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Statuses(statuses))
    return generate_latest(registry).decode()


class _Statuses(Collector):
    def __init__(self, statuses: Sequence[RouteStatus]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        state = GaugeMetricFamily("enrich_sync_state", "1 for the state of the route.", labels=(*_LABELS, "state"))
        lag = GaugeMetricFamily("enrich_sync_lag", "Records or rows that are not moved yet.", labels=_LABELS)
        rate = GaugeMetricFamily("enrich_sync_rows_per_second", "Over the last seconds.", labels=_LABELS)
        counters: dict[str, CounterMetricFamily] = {}
        gauges: dict[str, GaugeMetricFamily] = {}
        for status in self._statuses:
            labels = (status.name, status.kind.value)
            for one in RouteState:
                state.add_metric((*labels, one.value), float(status.state is one))
            if status.lag is not None:
                lag.add_metric(labels, status.lag)
            rate.add_metric(labels, status.rows_per_s)
            for name, total in status.counters.items():
                if name not in counters:
                    counters[name] = CounterMetricFamily(f"enrich_sync_{name}", _help_text(name), labels=_LABELS)
                counters[name].add_metric(labels, total)
            for name, value in status.gauges.items():
                if name not in gauges:
                    gauges[name] = GaugeMetricFamily(f"enrich_sync_{name}", _help_text(name), labels=_LABELS)
                gauges[name].add_metric(labels, value)
        yield from (state, lag, rate, *counters.values(), *gauges.values())


def _help_text(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}."

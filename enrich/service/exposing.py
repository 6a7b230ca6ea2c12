"""Figures of a program in Prometheus' text format."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector


def exposed(figures: Collector, pipeline: str) -> bytes:
    """Each figure with the label `pipeline`: several may have routes of one name."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Labelled(figures, pipeline))
    return generate_latest(registry)


class _Labelled(Collector):
    def __init__(self, figures: Collector, pipeline: str) -> None:
        self._figures = figures
        self._label = {"pipeline": pipeline}

    def collect(self) -> Iterator[Metric]:
        for metric in self._figures.collect():
            metric.samples = [sample._replace(labels={**sample.labels, **self._label}) for sample in metric.samples]
            yield metric

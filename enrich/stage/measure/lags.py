"""How late a stage's events were: histograms for Prometheus, and quantiles of the last minute for people."""

import threading
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import HistogramMetricFamily, Metric

from enrich.stage.measure.recent import Recent
from enrich.tally.histogram import Histogram
from enrich.tally.lags import NO_LAG, Lag

BOUNDS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 1_800, 7_200, 43_200, 86_400)
"""The same for all stages, so that their buckets can be added up: from a few milliseconds to a day of catching up."""
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_TEXTS = {
    "lag_in": "From an event's time to its arrival at a worker.",
    "lag_out": "From an event's time until it left its worker.",
    "process": "From an event's arrival at a worker until it left.",
}


class StageLags:
    """Since the driver's start, and of the last minute. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = NO_LAG
        self._recent = Recent()

    def add(self, lag: Lag) -> None:
        """Of a batch; one without events says nothing."""
        if not lag:
            return
        with self._lock:
            self._all += lag
        self._recent.add(lag)

    def metrics(self, labels: Mapping[str, str]) -> Iterator[Metric]:
        with self._lock:
            now = self._all
        for name, histogram in _named(now).items():
            family = HistogramMetricFamily(f"enrich_stage_{name}_seconds", _TEXTS[name], labels=[*labels])
            family.add_metric([*labels.values()], buckets(histogram), histogram.sum_ms / 1000)
            yield family

    def quantiles(self) -> Mapping[str, Mapping[str, float | None]]:
        """In seconds, of the events of the last minute; None if there were none."""
        return {
            f"{name}_s": {text: _seconds(histogram.quantile(share)) for text, share in _QUANTILES.items()}
            for name, histogram in _named(self._recent.lag()).items()
        }


def buckets(histogram: Histogram) -> Sequence[tuple[str, float]]:
    """Bounds as text, with how many were not above them."""
    reached = [(f"{bound:g}", histogram.count - histogram.above(round(bound * 1000))) for bound in BOUNDS_S]
    return [*reached, ("+Inf", histogram.count)]


def _named(lag: Lag) -> Mapping[str, Histogram]:
    return {"lag_in": lag.came, "lag_out": lag.went, "process": lag.took}


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000
